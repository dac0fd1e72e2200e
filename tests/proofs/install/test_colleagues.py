"""A stack that one person made is destroyed by others, who never ran its program.

Each has an environment, a HOME, a folder and a kubeconfig of their own, and a clone of the site's
repository. Only the state in the backend and the passphrase are shared.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from tests.proofs.install.site import (
    Site,
    ask,
    install,
    kubeconfig,
    make_cache,
    make_site,
    real_stack,
    tools_path,
)

pytestmark = pytest.mark.full

STACK, CLUSTER = "prod", "shared"
FILES = ("Pulumi.yaml", "Pulumi.prod.yaml", "__main__.py")
"""Files of the site's repository that a run reads."""
PROGRAM = """
from gpu_cluster.operation import command_line
from pulumi_command import local

local.Command("a", create="true", delete=command_line("rollout", "no-action"), stdin="{}")
"""
"""A program with a local Command, whose program refuses its action when it is deleted."""
NOT_FOUND = "gpu-cluster-program: not found"
REFUSED = "program: found the action no-action; wanted: "


@pytest.fixture
def maker(site: Site, address: str, tmp_path: Path) -> Iterator[Site]:
    """Yield the site of the person who made the stack, and stop the cluster at the end."""
    text = (site.folder / "Pulumi.dev.yaml").read_text().partition("    hosts:")[0]
    file = site.folder / f"Pulumi.{CLUSTER}.yaml"
    file.write_text(text.replace("-dev}", f"-{CLUSTER}}}"))
    site.succeeds("start", "--stack", CLUSTER)
    try:
        made = person(site, address, tmp_path, "maker", "venv")
        for name in ("Pulumi.yaml", "__main__.py"):
            shutil.copy(site.folder / name, made.folder)
        shutil.copy(file, made.folder / f"Pulumi.{STACK}.yaml")
        made.shell(f"pulumi stack init {STACK}")
        yield made
    finally:
        done = site.run("gpu-cluster", "down", "--stack", CLUSTER)
        file.unlink()
    assert done.returncode == 0, done.stdout + done.stderr


def person(site: Site, address: str, place: Path, name: str, environment: str) -> Site:
    """Return the folder of a person with a fresh environment.

    Args:
        environment: Path of the environment, relative to the folder. One outside the folder is
            activated, as Pulumi finds it only then.
    """
    for folder in (place / "state", place / name):
        folder.mkdir(exist_ok=True)
    made = make_site(place / name / "at", make_cache(place / name / "cache"))
    venv = (made.folder / environment).resolve()
    install(venv, address, ("gpu-rules", "gpu-cluster"))
    config = place / name / "kubeconfig"
    if kubeconfig(site, CLUSTER).exists():
        shutil.copy(kubeconfig(site, CLUSTER), config)
    more = {
        **made.environment,
        **real_stack(site, place / name),
        "KUBECONFIG": str(config),
        "PULUMI_BACKEND_URL": f"file://{place}/state",
        "PULUMI_STACK": STACK,
        "PATH": tools_path(),
        # Where no release of Pulumi's plugins can be reached, the toolchain's own run with the
        # Python of this environment, in place of official ones.
        "GPU_CLUSTER_PYTHON": sys.executable,
    }
    if not venv.is_relative_to(made.folder):
        more |= {"VIRTUAL_ENV": str(venv), "PATH": f"{venv}/bin:{more['PATH']}"}
    return replace(made, environment=more)


@contextmanager
def without(site: Site) -> Iterator[None]:
    """Remove all that a person has on this machine, until the end of the block."""
    place, hidden = site.folder.parents[1], site.folder.parents[1].with_name("hidden")
    place.rename(hidden)
    try:
        yield
    finally:
        hidden.rename(place)


def clone(maker: Site, colleague: Site) -> None:
    """Give a colleague the files of the maker's repository."""
    for file in FILES:
        shutil.copy(maker.folder / file, colleague.folder)


def namespaces(site: Site) -> set[str]:
    """Return the names of the cluster's namespaces."""
    listed = ask(site, lambda client: client.request("GET", "namespaces"), CLUSTER)
    return {item["metadata"]["name"] for item in listed["items"]}


def test_a_colleague_who_never_ran_the_program_destroys_a_stack(
    site: Site, maker: Site, address: str, tmp_path: Path
) -> None:
    before = namespaces(site)
    maker.shell("pulumi up --yes --skip-preview")
    assert namespaces(site) > before
    assert str(tmp_path) not in maker.shell("pulumi stack export")
    colleague = person(site, address, tmp_path, "plain", "../elsewhere/env")
    clone(maker, colleague)
    with without(maker):
        shown = colleague.shell("pulumi destroy --yes")
    assert NOT_FOUND not in shown
    assert namespaces(site) == before, shown
    assert '"urn"' not in maker.shell("pulumi stack export"), shown


@pytest.mark.promise(
    "The commands of a stack are found in each colleague's environment, also for a destroy on a "
    "machine that never ran the program."
)
def test_a_command_is_found_where_its_stack_was_not_made(
    site: Site, address: str, tmp_path: Path
) -> None:
    """Without the package on PATH or in the project's folder, it is not found."""
    maker = person(site, address, tmp_path, "maker", "venv")
    shutil.copy(site.folder / "Pulumi.yaml", maker.folder)
    (maker.folder / "__main__.py").write_text(PROGRAM)
    text = (site.folder / "Pulumi.dev.yaml").read_text().partition("    hosts:")[0]
    (maker.folder / f"Pulumi.{STACK}.yaml").write_text(text)
    maker.shell(f"pulumi stack init {STACK} && pulumi up --yes --skip-preview")
    ways = {
        "active": ("../elsewhere/env", "", REFUSED),
        "folder": ("venv", "", REFUSED),
        "none": ("../elsewhere/env", "export PATH=${PATH#*:} VIRTUAL_ENV=; ", NOT_FOUND),
    }
    for name, (environment, before, said) in ways.items():
        colleague = person(site, address, tmp_path, name, environment)
        clone(maker, colleague)
        with without(maker):
            done = colleague.shell_out(["sh", "-c", f"{before}pulumi destroy --yes"], "", {})
        assert done.returncode != 0
        assert said in done.stdout, name
