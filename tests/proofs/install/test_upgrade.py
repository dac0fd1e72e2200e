"""A site goes to another release by changed lines, is told what it means, and is uninstalled.

The next release is this one with another version, a renamed setting and an entry in its change log.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from maintenance.constraints import constraints
from maintenance.version import declared
from tests.fixtures.wheels import build
from tests.proofs.install.conftest import TOLD
from tests.proofs.install.site import (
    Site,
    index,
    install,
    last,
    make_cache,
    make_site,
    uninstall,
    use_free_ports,
)

NEXT = "99.0.0"
PACKAGES = ("gpu-rules", "gpu-cluster", "gpu-cluster-lab")
LOG = f"""## [Unreleased]

## [{NEXT}] - 2099-01-02

### Changed

- **Breaking** `validation.timeoutSeconds` is called `validation.timeLimitSeconds`.
- `devicePlugin.version` has another default.

## [{declared()}] - 2099-01-01
"""
FIELD = "    timeout_seconds: StrictInt = Field(\n"
EDITS = {
    "components/gpu_cluster/CHANGELOG.md": ("## [Unreleased]\n", LOG),
    "components/gpu_cluster/settings/validation.py": (
        FIELD,
        f'{FIELD}        alias="timeLimitSeconds",\n',
    ),
}
"""What the next release changes."""
Record = Callable[[str, object], None]


def require(site: Site, wheels: dict[str, Path]) -> None:
    """Write the requirements of a release, as Renovate or a person does."""
    (site.folder / "requirements.txt").write_text(constraints(wheels.values()))


@pytest.mark.full
@pytest.mark.promise(
    "An upgrade by a changed line names the settings of the stack that it changes, and the lines "
    "to edit; the next run changes nothing else."
)
def test_a_site_is_upgraded_told_what_changes_and_uninstalled(
    wheels: dict[str, Path], tmp_path: Path, record_property: Record
) -> None:
    (tmp_path / "next").mkdir()
    newer = build(tmp_path / "next", NEXT, EDITS)
    site = make_site(tmp_path / "site", make_cache(tmp_path / "cache"))
    with index([*wheels.values(), *newer.values()], tmp_path / "index") as address:
        install(site.venv, address, (f"{name}=={declared()}" for name in PACKAGES))
        file = tmp_path / "constraints.txt"
        file.write_text(constraints(wheels.values()))
        site.succeeds("init", "--forge", "gitlab", "--constraints", str(file))
        stack = site.folder / "Pulumi.dev.yaml"
        use_free_ports(site)
        stack.write_text(f"{stack.read_text()}    validation: {{timeoutSeconds: 120}}\n")
        try:
            assert last(site.succeeds("up")).startswith("up: 32 of 32 GPUs simulated, ")
            assert "nothing to upgrade" in site.succeeds("upgrade-check")
            require(site, newer)
            install(site.venv, address, (f"{name}=={NEXT}" for name in PACKAGES))
            _is_told_before_the_edit(site)
            stack.write_text(stack.read_text().replace("timeoutSeconds", "timeLimitSeconds"))
            previewed = site.succeeds("preview", "--file", "change.json")
            assert f"gpu-cluster {declared()} → {NEXT}: 1 change in settings" in previewed
            assert re.match(r"preview: \d+ same; ", last(previewed))
            comment = site.succeeds("comment", "--change", "change.json")
            assert f"`{declared()}` → `{NEXT}`" in comment
            assert ", 0 resources changed" in last(site.succeeds("up"))
            assert "nothing to upgrade" in site.succeeds("upgrade-check")
            record_property(TOLD, f"{declared()} to {NEXT}")
        finally:
            done = site.run("gpu-cluster", "down")
        assert done.returncode == 0, done.stdout + done.stderr
    uninstall(site, PACKAGES)
    left = [path for path in (site.folder / "venv").rglob("*") if "gpu" in path.name.lower()]
    assert [path for path in left if path.suffix != ".pyc" and path.is_file()] == []
    assert site.run("python", "-c", "import gpu_rules").returncode == 1


def _is_told_before_the_edit(site: Site) -> None:
    """Check that the command and the preview name the renamed setting, with its line."""
    lines = (site.folder / "Pulumi.dev.yaml").read_text().splitlines()
    number = next(n for n, line in enumerate(lines, 1) if "timeoutSeconds" in line)
    done = site.run("gpu-cluster", "upgrade-check")
    assert done.returncode == 1
    assert f"to edit: validation.timeoutSeconds (line {number}): found" in done.stdout
    breaking = "breaking in gpu-cluster: `validation.timeoutSeconds` is called"
    assert breaking in done.stdout
    assert f"(Pulumi.dev.yaml:{number})" in done.stdout
    previewed = site.run("gpu-cluster", "preview", "--file", "change.json")
    assert previewed.returncode == 1
    assert breaking in previewed.stdout + previewed.stderr
    assert f"validation.timeoutSeconds (line {number})" in previewed.stdout + previewed.stderr
    comment = site.succeeds("comment", "--change", "change.json")
    assert f"Pulumi.dev.yaml:{number}" in comment
    assert "is called" in comment
