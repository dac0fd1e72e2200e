"""Generate a plain Pulumi program with the same resources as this project's stack, for B4."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

from gpu_cluster.commands.environment import local_backend
from gpu_cluster.property_values import SIGNATURE
from lab.benchmarks.project import Project

BARE = Path(__file__).parent / "bare"

MARK = "a secret"
"""Only key of an object that marks a secret; its value is the secret itself."""

NOT_GIVEN = frozenset({"__defaults", "__internal"})
"""Internal keys that providers add to a resource's inputs, and that no program sets."""


def snake_case(name: str) -> str:
    """Return the Python argument name of a resource property: its name in snake case."""
    return re.sub(r"(?<=[a-z0-9])[A-Z]", lambda match: f"_{match[0].lower()}", name)


def arguments(resource: dict[str, Any]) -> dict[str, Any]:
    """Return the constructor arguments with which a program registers an exported resource.

    The state lists all inputs of a Helm release that the provider knows; only non-empty inputs were
    set by the program, and a local chart has no version. A provider's settings keep their names,
    because the program registers it as `gpu_cluster.provider` does; its version is an option.
    """
    given = {key: value for key, value in resource["inputs"].items() if key not in NOT_GIVEN}
    if resource["type"] == "kubernetes:helm.sh/v3:Release":
        given = {key: value for key, value in given.items() if value and key != "version"}
    if resource["type"].startswith("pulumi:providers:"):
        return {key: _plain_inputs(value) for key, value in given.items() if key != "version"}
    return {snake_case(key): _plain_inputs(value) for key, value in given.items()}


def _plain_inputs(value: Any) -> Any:
    if isinstance(value, dict):
        if SIGNATURE in value:
            return {MARK: json.loads(value["plaintext"])}
        return {key: _plain_inputs(item) for key, item in value.items() if key not in NOT_GIVEN}
    return value


def _name_in_urn(urn: str) -> str:
    return urn.rsplit("::", 1)[-1]


def program(resources: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the content of `resources.json` for `bare/__main__.py`.

    The file lists each resource (parents first), the stack's outputs, and the key that marks secret
    values.
    """
    declared: list[dict[str, Any]] = []
    outputs: dict[str, Any] = {}
    for resource in resources:
        if resource["type"] == "pulumi:pulumi:Stack":
            outputs = resource.get("outputs", {})
            continue
        provider = _name_in_urn(resource.get("provider", "").rsplit("::", 1)[0])
        if _name_in_urn(resource["urn"]).startswith("default_"):
            continue  # Skip default providers, because the engine creates them itself.
        declared.append(
            {
                "type": resource["type"],
                "name": _name_in_urn(resource["urn"]),
                "component": not resource["custom"],
                "parent": _name_in_urn(resource.get("parent", "")),
                "provider": "" if provider.startswith("default_") else provider,
                "dependsOn": [_name_in_urn(urn) for urn in resource.get("dependencies", [])],
                "arguments": arguments(resource) if resource["custom"] else {},
                "outputs": resource.get("outputs", {}),
            }
        )
    return {"secret": MARK, "resources": declared, "outputs": outputs}


def make(ours: Project) -> tuple[Path, dict[str, str]]:
    """Create the plain program, with a copy of this project's state, next to the folder of `ours`.

    Project and stack have the same names, so that both states have the same resources.

    Returns:
        The program's folder and its environment variables.
    """
    _, exported = ours.pulumi("stack", "export", "--show-secrets")
    resources = json.loads(exported)["deployment"]["resources"]
    folder = ours.folder.with_name("bare")
    shutil.copytree(BARE, folder)
    declared = folder / "resources.json"
    # The file contains secrets, so only its owner may read it. The benchmark's stack is temporary.
    declared.touch(mode=0o600)
    declared.write_text(json.dumps(program(resources)))
    shutil.copy2(ours.folder / "Pulumi.yaml", folder)
    settings = (ours.folder / f"Pulumi.{ours.stack}.yaml").read_text().splitlines(keepends=True)
    salt = [line for line in settings if line.startswith("encryptionsalt:")]
    (folder / f"Pulumi.{ours.stack}.yaml").write_text("".join(salt))
    for shared in ("venv", "lab", "components", "policies"):
        (folder / shared).symlink_to(ours.folder / shared)
    state = ours.state.with_name("bare-state")
    shutil.copytree(ours.state, state)
    return folder, {**ours.environment, "PULUMI_BACKEND_URL": local_backend(state)}
