"""Attack: a download that hosts declare by https is redirected to http."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from gpu_cluster_lab.simulator.http_servers import running
from tests.ci.machine import link_programs
from tests.fixtures.programs import run_program
from tests.proofs.attacks.sites import Site, write_certificate
from tests.toolchain.plugins.rig import LIMIT, ROOT

SCRIPTS = next(ROOT.rglob("components/gpu_cluster/**/runfile.sh")).parent
GOOD = b"a key\n"
SUM = hashlib.sha256(GOOD).hexdigest()
PROGRAMS = ("curl", "wget")
FETCHING = re.compile(r"""(?:^|[\s;&|("'])(curl|wget) [-"]""", re.MULTILINE)
DOWNLOADS = {
    # The function `download`, which this file tests.
    "components/gpu_cluster/hosts/steps/library/repositories.sh": {"curl", "wget"},
    # These requests follow no redirect: they have neither -L nor --location.
    "components/gpu_cluster/hosts/observed/probe.sh": {"curl"},
    "components/gpu_cluster/hosts/steps/crio.sh": {"curl"},
    "components/gpu_cluster/hosts/steps/library/cri.sh": {"curl"},
}
"""Scripts that use programs of downloads, and which ones."""


@pytest.fixture
def sites(tmp_path: Path) -> Iterator[tuple[Site, Site]]:
    """Serve two web servers, the first one with TLS."""
    found = Site(write_certificate(tmp_path)), Site()
    with ExitStack() as stack:
        for each in found:
            stack.enter_context(running(each.server))
            each.files["/key"] = GOOD
        yield found


def download(
    folder: Path, program: str, address: str
) -> tuple[subprocess.CompletedProcess[str], Path]:
    """Download an address by the host scripts on a machine with only one of the programs."""
    tools, root = folder / f"tools-{program}", folder / "root"
    if not tools.exists():
        link_programs(tools)
        (root / "run").mkdir(parents=True, exist_ok=True)
        if (found := shutil.which(program)) is None:
            pytest.skip(f"needs {program}")
        (tools / program).symlink_to(found)
    certificate, settings = folder / "certificate.pem", folder / "wgetrc"
    settings.write_text(f"ca_certificate = {certificate}\n")
    parts = [(SCRIPTS / name).read_text() for name in ("base.sh", "effects.sh", "repositories.sh")]
    file = folder / "downloaded"
    text = f'mkdir -p "$scratch"\ndownload {address} {SUM} {file}'
    done = run_program(
        ["/bin/sh", "-s"],
        env={
            "PATH": str(tools),
            "GPU_CLUSTER_ROOT": str(root),
            "CURL_CA_BUNDLE": str(certificate),
            "WGETRC": str(settings),
            "NO_PROXY": "127.0.0.1",
            "no_proxy": "127.0.0.1",
        },
        input="\n".join(["set -u\nGC_PHASE=prepare GC_LOCK_LIMIT=5", *parts, text]),
        timeout=LIMIT,
    )
    return done, file


@pytest.mark.promise("A download that hosts make by https is never continued by http.")
@pytest.mark.parametrize("program", PROGRAMS)
def test_a_download_by_https_never_continues_by_http(
    program: str, sites: tuple[Site, Site], tmp_path: Path
) -> None:
    secure, plain = sites
    secure.moved["/moved"] = f"{plain.address}/key"
    secure.moved["/twice"] = "/moved"
    for path in ("/moved", "/twice"):
        done, file = download(tmp_path, program, f"{secure.address}{path}")
        assert plain.asked == []
        assert secure.asked[-1] == "/moved"
        assert done.returncode == 1
        assert f"{secure.address}{path} can't be downloaded" in done.stdout + done.stderr
        assert not file.exists()
        assert not file.with_name("downloaded.part").exists()


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_download_follows_other_redirects(
    program: str, sites: tuple[Site, Site], tmp_path: Path
) -> None:
    secure, plain = sites
    secure.files["/folder/key"] = GOOD
    for site in sites:
        site.moved |= {
            "/absolute": f"{secure.address}/key",
            "/path": "/key",
            "/folder/name": "key",
            "/chain": "/path",
        }
    plain.files["/folder/key"] = GOOD
    for site in sites:
        for path in ("/key", "/absolute", "/path", "/folder/name", "/chain"):
            done, file = download(tmp_path, program, f"{site.address}{path}")
            assert done.returncode == 0, (path, done.stdout, done.stderr)
            assert file.read_bytes() == GOOD
            file.unlink()


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_download_without_an_end_of_redirects_fails(
    program: str, sites: tuple[Site, Site], tmp_path: Path
) -> None:
    secure, _ = sites
    secure.moved["/round"] = "/round"
    for path in ("/round", "/none"):
        done, file = download(tmp_path, program, f"{secure.address}{path}")
        assert done.returncode == 1
        assert "can't be downloaded" in done.stdout + done.stderr
        assert not file.exists()
    assert len(secure.asked) < 100


def test_no_other_script_downloads() -> None:
    found: dict[str, set[str]] = {}
    for folder in ("components", "embedded", "lab", "package", ".github", ".ci", "templates"):
        for file in sorted((ROOT / folder).rglob("*")):
            if not file.is_file() or file.suffix in {".pyc", ".md", ".json"}:
                continue
            text = "\n".join(
                line
                for line in file.read_text(errors="replace").splitlines()
                if not line.lstrip().startswith("#")
            )
            if programs := set(FETCHING.findall(text)):
                found[os.path.relpath(file, ROOT)] = programs
                name = os.path.relpath(file, ROOT)
                if name != next(iter(DOWNLOADS)):
                    assert not re.search(r"curl[^\n]* (-\w*L|--location)", text), name
    assert found == DOWNLOADS
