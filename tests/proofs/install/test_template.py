"""`pulumi new` makes the same site of the template as `gpu-cluster init`."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import yaml

from tests.proofs.install.site import Site, pulumi_path

pytestmark = pytest.mark.full


def files_of(folder: Path) -> dict[str, str]:
    paths = (path for path in folder.rglob("*") if path.is_file() and not path.is_symlink())
    return {str(path.relative_to(folder)): path.read_text() for path in paths}


@pytest.mark.promise("`pulumi new` makes a site of the template that `gpu-cluster init` writes.")
def test_pulumi_makes_the_site_of_the_template(
    site: Site, constraints_file: Path, tmp_path: Path
) -> None:
    template, made = tmp_path / "template", tmp_path / "site"
    for folder in (template, made):
        folder.mkdir()
    command = site.folder / "venv" / "bin" / "gpu-cluster"
    words = f"--owners @org/gpu --constraints '{constraints_file}'"
    site.shell(f"cd '{template}' && '{command}' init --template {words}")
    more = {
        "PATH": pulumi_path(site),
        "PULUMI_BACKEND_URL": f"file://{tmp_path}",
        "GPU_CLUSTER_PYTHON": sys.executable,
    }
    line = f"cd '{made}' && pulumi new '{template}' --generate-only --yes --non-interactive"
    site.shell(line, **more)
    wanted, found = files_of(template), files_of(made)
    before, after = (yaml.safe_load(each.pop("Pulumi.yaml")) for each in (wanted, found))
    assert found == wanted
    assert before.pop("template")
    after.pop("config", None)
    assert after == before
