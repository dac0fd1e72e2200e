"""The inspection reads whether a host's kubelet accepts cgroup v1 where the kubelet reads it."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpu_cluster.hosts.script import FOLDER
from tests.fixtures.programs import run_program

DEFAULT = "/var/lib/kubelet/config.yaml"
SYSTEMCTL = "#!/bin/sh\necho MainPID=77\n"


def takes_cgroup_v1(root: Path, words: str, files: dict[str, str]) -> bool:
    """Run the shell function on a folder with the running kubelet's arguments and files."""
    (root / "proc/77").mkdir(parents=True)
    (root / "proc/77/cmdline").write_text("\0".join(["kubelet", *words.split(), ""]))
    for path, text in files.items():
        target = root / path.lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)
    (root / "bin").mkdir()
    (root / "bin/systemctl").write_text(SYSTEMCTL)
    (root / "bin/systemctl").chmod(0o755)
    parts = ("library/base", "library/json", "library/running", "library/kubelet")
    text = "".join((FOLDER / f"{part}.sh").read_text() for part in parts)
    done = run_program(
        ["sh", "-s"],
        env={"GPU_CLUSTER_ROOT": str(root), "PATH": f"{root}/bin:/usr/bin:/bin"},
        input=f"GC_PHASE=prepare\n{text}takes_cgroup_v1 && echo yes || echo no\n",
        timeout=60,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout == "yes\n"


@pytest.mark.promise(
    "cgroup v1 is accepted from the running kubelet's flags, file and folder of drop-ins."
)
@pytest.mark.parametrize(
    ("words", "files", "taken"),
    [
        ("", {DEFAULT: "kind: KubeletConfiguration\nfailCgroupV1: false\n"}, True),
        ("", {DEFAULT: "failCgroupV1: true\n"}, False),
        (
            "",
            {DEFAULT: "# failCgroupV1: false\ncgroupDriver: systemd # failCgroupV1: false\n"},
            False,
        ),
        ("--fail-cgroupv1=false", {}, True),
        # kubespray names its file by two words in kubelet.env.
        ("--config /etc/site.yaml", {"/etc/site.yaml": "failCgroupV1: false\n"}, True),
        ("--config=/etc/site.yaml", {DEFAULT: "failCgroupV1: false\n"}, False),
        # EKS writes JSON, which may be one line, and drop-ins in a folder.
        ("--config=/c.json", {"/c.json": '{"cgroupRoot":"/","failCgroupV1":false}'}, True),
        (
            "--config=/c.json --config-dir=/d",
            {"/c.json": "{}", "/d/10-a.conf": '{"failCgroupV1": false}'},
            True,
        ),
        (
            "--config=/c.json --config-dir /d",
            {
                "/c.json": '{"failCgroupV1": false}',
                "/d/20-b.conf": "failCgroupV1: true\n",
                "/d/10-a.conf": "failCgroupV1: false\n",
            },
            False,
        ),
        ("--config-dir=/d", {"/d/a.conf.bak": "failCgroupV1: false\n"}, False),
        # The same reader as that of the cgroup driver: a flag counts more, a nested key is another.
        ("--fail-cgroupv1=true", {DEFAULT: "failCgroupV1: false\n"}, False),
        ("", {DEFAULT: "logging:\n  failCgroupV1: false\n"}, False),
        ("", {DEFAULT: "{kind: KubeletConfiguration, failCgroupV1: false}\n"}, True),
    ],
)
def test_the_running_kubelets_own_files_say_whether_it_takes_cgroup_v1(
    tmp_path: Path, words: str, files: dict[str, str], taken: bool
) -> None:
    assert takes_cgroup_v1(tmp_path, words, files) is taken
