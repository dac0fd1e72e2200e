"""The stack's secrets, set with `pulumi config set --secret gpu-cluster:…`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pulumi
import yaml

from gpu_cluster.base.nesting import LOADER
from gpu_cluster.platforms.discovery import every
from gpu_cluster.ssh.key_files import key_of_file
from gpu_rules.faults import ConfigError, FaultError, Location, fault


@dataclass(frozen=True, kw_only=True)
class Secrets:
    """Secrets of a stack. `GpuCluster` reports the ones that are missing.

    Attributes:
        private_key: SSH private key. Empty: not configured.
        join_token: kubeadm's bootstrap token. None: not configured.
        registry_credentials: Docker configuration in JSON. None: not configured.
        named: Values of the Secrets that a platform needs, by name.
        in_values: True if the settings contain a secret, which may only be in `extraValues`.
    """

    private_key: str = field(repr=False)
    join_token: str | None = field(repr=False)
    registry_credentials: pulumi.Output[str] | None
    named: Mapping[str, pulumi.Output[str]]
    in_values: bool = False


def read_secrets(settings: pulumi.Config) -> Secrets:
    """Read the secrets of a stack.

    Args:
        settings: Configuration of the stack.

    Raises:
        RunError: The key file that the environment variable names can't be read, or the stack file
            has a secret in a setting that is not kept secret.
    """
    in_values = pulumi.runtime.is_config_secret(settings.full_key("cluster"))
    try:
        if in_values:
            file = Path(f"Pulumi.{pulumi.get_stack()}.yaml")
            require_secrets_in_values(file.name, file.read_text() if file.is_file() else "")
        private_key = settings.get("sshPrivateKey") or key_of_file()
    except FaultError as error:
        raise pulumi.RunError(str(error)) from None
    named = {name: settings.get_secret(name) for platform in every() for name in platform.secrets}
    return Secrets(
        private_key=private_key,
        join_token=settings.get("kubeadmToken"),
        registry_credentials=settings.get_secret("registryCredentials"),
        named={name: value for name, value in named.items() if value is not None},
        in_values=in_values,
    )


def require_secrets_in_values(file: str, text: str) -> None:
    """Check that the settings in a stack file have secrets only in `extraValues`.

    Pulumi gives the program all settings in plain text and reports only whether one of them is a
    secret. The program then treats all values of the Helm release as secrets, but no other setting.

    Args:
        file: Name of the stack file, for the message.
        text: Text of the stack file, with encrypted secrets.

    Raises:
        ConfigError: Another setting contains a secret.
    """
    document = yaml.load(text, LOADER)  # noqa: S506 # LOADER is a safe loader
    config = document.get("config") if isinstance(document, Mapping) else None
    cluster = config.get("gpu-cluster:cluster") if isinstance(config, Mapping) else None
    places = [path for path in _secret_paths(cluster) if "extraValues" not in path]
    if places:
        wanted = "secrets only in extraValues: this setting would be shown in plain text"
        cure = "write the setting in plain text, or name a Secret of the cluster in its place"
        raise ConfigError([fault(place, "a secret", wanted, cure) for place in places], file)


def _secret_paths(value: Any, at: Location = ()) -> Iterator[Location]:
    """Yield the path of each encrypted value, which Pulumi writes as `{secure: text}`."""
    if isinstance(value, Mapping):
        if set(value) == {"secure"} and isinstance(value["secure"], str):
            yield at
        else:
            for key, item in value.items():
                yield from _secret_paths(item, (*at, str(key)))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _secret_paths(item, (*at, index))
