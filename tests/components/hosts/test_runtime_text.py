"""Values of phase `runtime` reach the host's shell as data, whichever characters they contain."""

from __future__ import annotations

import json
import shutil
import subprocess
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from gpu_cluster.settings.hosts.repository import Repository, Signed
from gpu_cluster.settings.hosts.runtime import (
    Docker,
    Engine,
    RuntimeSettings,
    Toolkit,
    ToolkitSource,
)
from tests.components.hosts.hostile import HOSTILE, VALUE, variables
from tests.proofs.hosts.declared import runtime

SHELLS = [shell for shell in ("dash", "bash") if shutil.which(shell)]
FIELDS = ("image", "root", "mirror", "version", "url", "suite", "components", "key", "place", "sum")
"""Ten values for each script, so that 100 examples test 1,000 values."""


def script_of(values: dict[str, str]) -> str:
    """Return a script with values that no validation has checked, to test only the rendering."""
    repository = Repository.model_construct(
        url=values["url"],
        suite=values["suite"],
        components=values["components"],
        key=values["key"],
        key_url=values["place"],
        key_sha256=values["sum"],
        signed=Signed.BOTH,
    )
    toolkit = Toolkit.model_construct(
        source=ToolkitSource.PACKAGE,
        version=values["version"],
        apt=repository,
        dnf=repository,
        remove_packages=False,
    )
    docker = Docker.model_construct(
        **(Docker().model_dump() | {"data_root": values["root"]}),
    )
    object.__setattr__(docker, "registry_mirrors", (values["mirror"],))
    whole = RuntimeSettings(engine=Engine.DOCKER)
    for name, value in (
        ("toolkit", toolkit), ("docker", docker), ("check_image", values["image"])
    ):  # fmt: skip
        object.__setattr__(whole, name, value)
    return runtime(whole, inline=True)


def arrived(shell: str, script: str) -> list[str]:
    """Return the values that a shell read from the script."""
    names = ("GC_CHECK_IMAGE", "GC_DOCKER_DATA_ROOT", "GC_DOCKER_MIRRORS", "GC_TOOLKIT_PACKAGES")
    show = [f"printf '%s\\0' \"${name}\"" for name in names]
    show += ['shown() { [ "$1" = dnf ] || printf \'%s\\0\' "$@"; }', "each_repository shown"]
    return variables(shell, script, show)


@pytest.mark.full
@pytest.mark.parametrize("shell", SHELLS)
@settings(max_examples=100, deadline=None)
@given(texts=st.lists(VALUE, min_size=len(FIELDS), max_size=len(FIELDS)))
def test_a_thousand_values_arrive_as_they_are(shell: str, texts: list[str]) -> None:
    values = dict(zip(FIELDS, texts, strict=True))
    image, root, mirrors, packages, *row = arrived(shell, script_of(values))
    assert (image, root) == (values["image"], values["root"])
    assert json.loads(mirrors) == values["mirror"]
    assert f"nvidia-container-toolkit={values['version']}" in packages
    keys = ("url", "suite", "components", "key", "place", "sum")
    assert row[-7:] == [*(values[key] for key in keys), "both"]


REFUSED: dict[str, Any] = {
    "registry_mirrors": lambda text: Docker(registry_mirrors=(text,)),
    "data_root": lambda text: Docker(data_root=text),
    "members": lambda text: Docker(members=(text,)),
    "check_image": lambda text: RuntimeSettings(check_image=text),
    "version": lambda text: Toolkit(version=text),
    "url": lambda text: Repository(url=text, key="-----BEGIN PGP PUBLIC KEY BLOCK-----"),
}


@pytest.mark.parametrize("field", REFUSED)
@pytest.mark.parametrize("text", HOSTILE)
def test_what_a_file_format_can_not_carry_is_refused(field: str, text: str) -> None:
    with pytest.raises(ValidationError):
        REFUSED[field](text)


def test_settings_of_another_engine_are_refused() -> None:
    with pytest.raises(ValidationError, match="settings of docker with engine containerd"):
        RuntimeSettings(docker=Docker(data_root="/data/docker"))
    with pytest.raises(ValidationError, match="checkImage with engine k3s"):
        RuntimeSettings(
            engine=Engine.K3S, check_image="docker.io/nvidia/cuda:12.8.1-base-ubuntu24.04"
        )


@pytest.mark.parametrize("engine", Engine)
def test_scripts_of_every_engine_are_sound(engine: Engine) -> None:
    script = runtime(RuntimeSettings(engine=engine))
    for shell in SHELLS:
        subprocess.run([shell, "-n"], input=script.encode(), check=True, timeout=20)


@pytest.mark.parametrize("engine", Engine)
def test_nothing_reloads_the_service_manager_or_flushes_the_firewall(engine: Engine) -> None:
    lines = [line.strip() for line in runtime(RuntimeSettings(engine=engine)).splitlines()]
    code = [line for line in lines if not line.startswith("#")]
    assert not [line for line in code if "daemon-reload" in line or "daemon-reexec" in line]
    assert not [
        line
        for line in code
        if "systemctl" in line
        and "able " in line
        and "is-enabled" not in line
        and "--no-reload" not in line
    ]
    assert not [line for line in code if "iptables" in line and (" -F" in line or " -X" in line)]
