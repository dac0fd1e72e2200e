"""Attack: manipulated dependencies, downloads, images or releases of this project."""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
from http.server import ThreadingHTTPServer
from pathlib import Path

import pytest

from gpu_cluster.commands import images
from gpu_cluster.platforms.needed import Image
from gpu_cluster_lab.simulator.http_servers import QuietHandler, running
from gpu_cluster_lab.toolchain.machine import Platform
from gpu_cluster_lab.toolchain.pins import PINS
from gpu_cluster_lab.toolchain.releases import Downloads, ReleaseError, asset
from gpu_cluster_lab.toolchain.sums import SUMS
from maintenance import audit, sbom, secret_scan
from tests.fixtures.programs import run_program

ROOT = Path(__file__).resolve().parents[3]


def test_the_bill_of_materials_names_all_that_is_locked() -> None:
    components = sbom.bom()["components"]
    names = {component["purl"] for component in components}
    lock = (ROOT / "requirements.lock").read_text()
    packages = re.findall(r"^([A-Za-z0-9._-]+)==([^ \\\n]+)", lock, re.MULTILINE)
    assert len(packages) > 50
    for name, version in packages:
        assert f"pkg:pypi/{re.sub(r'[-_.]+', '-', name).lower()}@{version}" in names
    for pin in PINS.values():
        assert f"pkg:generic/{pin.name}@{pin.version}" in names
    for file in (ROOT / "embedded" / "gpu_cluster_lab" / "toolchain" / "go").rglob("go.sum"):
        for line in file.read_text().splitlines():
            name, version, _ = line.split()
            if not version.endswith("/go.mod"):
                assert f"pkg:golang/{name}@{version}" in names


def test_the_bill_of_materials_is_well_formed_and_always_the_same() -> None:
    document = sbom.bom()
    assert (document["bomFormat"], document["specVersion"]) == ("CycloneDX", "1.6")
    refs = [component["bom-ref"] for component in document["components"]]
    assert len(set(refs)) == len(refs)
    for component in document["components"]:
        assert {"type", "name", "version", "purl", "bom-ref"} <= component.keys()
        for entry in component.get("hashes", []):
            assert re.fullmatch("[0-9a-f]{64}", entry["content"])
        if component["purl"].startswith("pkg:pypi/"):
            assert component["hashes"]
    assert json.dumps(document) == json.dumps(sbom.bom())


LOOKS = {
    "a private key": b"-----BEGIN OPENSSH " + b"PRIVATE KEY-----\n" + b"A" * 70 + b"\n",
    "a GitHub token": b"token = gh" + b"p_" + b"a1B2" * 9,
    "an AWS key": b"AKI" + b"A" + b"ABCD" * 4,
    "a Pulumi token": b"pul" + b"-" + b"0a" * 20,
    "a password in an address": b"https://user:" + b"hunter22hunter" + b"@example.org/",
}


@pytest.mark.parametrize("what", LOOKS)
def test_what_looks_like_a_secret_is_found(what: str) -> None:
    assert secret_scan.found_in(b"before\n" + LOOKS[what] + b"\nafter") == [what]


def test_what_is_none_is_not_found() -> None:
    for text in (
        b"sha256:" + b"a1" * 32,
        b"https://example.org/a:b@c",
        b"ghp_short",
        b"PRIVATE KEY",
    ):
        assert secret_scan.found_in(text) == []


def test_a_secret_that_was_removed_is_still_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def git(*arguments: str) -> None:
        identity = ["-c", "user.name=t", "-c", "user.email=t@example.org"]
        subprocess.run(["git", *identity, *arguments], cwd=tmp_path, check=True, timeout=60)

    git("init", "-q")
    for name, text in (("key.txt", LOOKS["an AWS key"]), ("key.txt", b"nothing")):
        (tmp_path / name).write_bytes(text)
        git("add", "-A")
        git("commit", "-q", "-m", "x")
    monkeypatch.setattr(secret_scan, "ROOT", tmp_path)
    (line,) = secret_scan.scan()
    assert line.startswith("key.txt (object ")
    assert "found an AWS key" in line


def test_the_history_holds_no_secret() -> None:
    assert secret_scan.scan() == []


def test_an_audit_that_can_t_look_says_so_and_finds_nothing(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    unreached = audit._run_scanner("a", ["sh", "-c", "echo dial tcp: lookup failed >&2; exit 1"])
    missing = audit._run_scanner("b", ["no-such-program"])
    finding = audit._run_scanner("c", ["sh", "-c", "printf 'CVE-1\\033[2J'; exit 1"])
    assert [(part.judged, part.clean) for part in (unreached, missing, finding)] == [
        (False, False),
        (False, False),
        (True, False),
    ]
    assert "\x1b" not in str(finding)
    for results, strict, code in (
        ([missing], "", 0),
        ([missing], "strict", 1),
        ([finding], "", 1),
    ):
        monkeypatch.setattr(audit, "parts", lambda value=results: [lambda: value[0]])
        monkeypatch.setenv("AUDIT", strict)
        with pytest.raises(SystemExit) as ended:
            audit.main()
        assert int(ended.value.code or 0) == code
    assert "audit: 1 parts, 0 with findings, 1 not judged (b)" in capsys.readouterr().out


@pytest.mark.parametrize(("status", "judged"), [(1, False), (2, False), (3, True)])
def test_only_the_exit_code_for_findings_is_a_finding(
    status: int, judged: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    go = tmp_path / "go"
    go.write_text(f"#!/bin/sh\necho 'no packages' >&2\necho 'exit status {status}' >&2\nexit 1\n")
    go.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    result = audit._scan_go(
        ROOT / "embedded" / "gpu_cluster_lab" / "toolchain" / "go" / "actionlint"
    )
    assert (result.judged, result.clean) == (judged, False)


def test_the_audit_looks_at_every_lock_of_python_packages(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(audit, "_run_scanner", lambda name, command: (name, command[-1]))
    found = {
        part.args[0] for part in audit.parts() if getattr(part, "func", None) is audit._scan_python
    }
    assert found == {path.name for path in ROOT.glob("*.lock")}
    assert audit._scan_python("a.lock") == ("pip-audit (a.lock)", "a.lock")


def test_the_audit_looks_at_every_program_that_is_built() -> None:
    for file in (ROOT / "embedded" / "gpu_cluster_lab" / "toolchain" / "go").glob("*/go.mod"):
        tools = file.with_name("tools.go")
        imported = tools.read_text().count('_ "') if tools.exists() else 1
        assert len(audit.programs(file.parent)) == imported > 0, file


def test_licence_and_security_policy_are_there() -> None:
    assert "Apache License" in (ROOT / "LICENSE").read_text()
    text = (ROOT / "SECURITY.md").read_text()
    for word in ("pull request", "compromised host", "hostile object", "tenant", "another user"):
        assert word in text
    for path in re.findall(r"`((?:docs|tests)/[a-z_/.]+)`", text):
        assert (ROOT / path).exists(), path
    assert json.loads((ROOT / "renovate.json").read_text())["extends"]


class Origin(QuietHandler):
    """A compromised download server serves a harmful file and a checksum list that matches it.

    The pinned checksum must reject the file.
    """

    body = b"#!/bin/sh\necho owned\n"

    def do_GET(self) -> None:
        listed = f"{hashlib.sha256(self.body).hexdigest()}  {Path(self.path).name}\n".encode()
        answer = listed if "checksums" in self.path else self.body
        self.send_response(200)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)


def test_an_origin_that_changes_file_and_list_is_refused(tmp_path: Path) -> None:
    with running(ThreadingHTTPServer(("127.0.0.1", 0), Origin)) as base:
        platform = Platform("linux", "amd64")
        item = asset(PINS["actionlint"], platform, {"github": base, "kubernetes": base})
        assert item is not None
        assert item.file_name in SUMS
        listed = hashlib.sha256(Origin.body).hexdigest() + f"  {item.file_name}\n"
        with pytest.raises(ReleaseError, match=f"wanted {SUMS[item.file_name]}: refused"):
            Downloads().fetch(item, listed, tmp_path / "tool")
        assert not (tmp_path / "tool").exists()
        # Without the pinned checksum, the manipulated download would be accepted.
        Downloads(pinned={}).fetch(item, listed, tmp_path / "tool")


def test_every_pinned_sum_is_of_a_download_that_is_used() -> None:
    files = {
        download.file_name
        for pin in PINS.values()
        for system in ("linux", "darwin")
        for machine in ("amd64", "arm64")
        if (download := asset(pin, Platform(system, machine))) is not None
    }
    assert set(SUMS) <= files
    assert all(re.fullmatch("[0-9a-f]{64}", digest) for digest in SUMS.values())


LISTED = (
    Image("nvcr.io/nvidia/a:v1", "nvcr.io/nvidia/a:v1", "sha256:" + "a" * 64),
    Image("mirror.example.org/b:v1", "registry.k8s.io/b:v1", ""),
    Image("docker.io/c/d:v1", "docker.io/c/d:v1", ""),
    Image("nvcr.io/nvidia/e", "nvcr.io/nvidia/e", "", "<driver>-<system>"),
)
# Fake cosign that rejects invalid arguments of `verify` (sigstore/cosign v3 doc/cosign_verify.md),
# and images that aren't signed with the publisher's key. It prints cosign's own error messages.
COSIGN = """#!/bin/sh
[ "$1" = verify ] || exit 64
shift
key=
for argument; do
    case $argument in
    --key=https://api.ngc.nvidia.com/v2/catalog/containers/public-key) key=nvcr.io ;;
    --certificate-identity=*@*) key=registry.k8s.io ;;
    --certificate-oidc-issuer=https://*|--insecure-ignore-tlog) ;;
    -*) echo "Error: unknown flag: $argument" >&2; exit 1 ;;
    "$key"/*) [ "$BAD" != "$key" ] || { echo 'Error: no signatures found[2J' >&2; exit 10; } ;;
    *) exit 65 ;;
    esac
done
"""


def test_without_cosign_each_image_says_how_its_signature_is_verified() -> None:
    nvidia, kubernetes, other, incomplete = images.checks(LISTED, None)
    digest = LISTED[0].digest
    assert nvidia.text.endswith(f"--insecure-ignore-tlog nvcr.io/nvidia/a:v1@{digest}")
    assert "found no cosign on PATH; run: cosign verify --certificate-identity" in kubernetes.text
    assert kubernetes.text.endswith(" registry.k8s.io/b:v1")
    assert other.text.endswith("can't be verified: its publisher names no key; pin its digest")
    assert incomplete.text.endswith("can't be verified: the name is not complete")
    checks = (nvidia, kubernetes, other, incomplete)
    assert all(check.text.startswith("# signature ") for check in checks)
    assert not any(check.refused for check in checks)


@pytest.mark.promise("`gpu-cluster images` verifies signatures by cosign, and says where it can't.")
@pytest.mark.parametrize("bad", ["", "nvcr.io", "registry.k8s.io"])
def test_a_signature_is_verified_by_the_publisher_s_key(
    bad: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "cosign"
    program.write_text(COSIGN)
    program.chmod(0o755)
    monkeypatch.setenv("BAD", bad)
    checks = images.checks(LISTED, str(program))
    assert [check.refused for check in checks] == [
        bad == "nvcr.io",
        bad == "registry.k8s.io",
        False,
        False,
    ]
    text = "\n".join(check.text for check in checks)
    assert text.count("verified by --") == (1 if bad else 2)
    assert text.count("NOT verified: Error: no signatures found") == (1 if bad else 0)
    assert "\x1b" not in text


def test_a_refused_signature_fails_the_command(tmp_path: Path) -> None:
    program = tmp_path / "cosign"
    program.write_text("#!/bin/sh\necho 'Error: no signatures found' >&2\nexit 10\n")
    program.chmod(0o755)
    done = run_program(
        [sys.executable, "-m", "gpu_cluster.commands", "images"],
        env={**os.environ, "PATH": f"{tmp_path}:/usr/bin:/bin", "STACK": "prod"},
        timeout=120,
    )
    assert done.returncode == 1
    assert "signatures NOT verified" in done.stderr
    assert "nvcr.io/nvidia/" in done.stdout, "the list is whole"
