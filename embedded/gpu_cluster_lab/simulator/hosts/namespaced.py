"""Simulated SSH host in its own namespaces: an overlay on a Debian root, with its own sshd."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from gpu_cluster_lab.simulator.hosts import processes, rootfs
from gpu_cluster_lab.simulator.hosts.model import Spec, cluster_dir

TRIAL_LIMIT = 60
"""Seconds that a trial mount may take; on a busy machine it takes seconds."""
BOOT = Path(__file__).with_name("boot.sh")
UNSHARE = ["unshare", "--mount", "--pid", "--uts", "--ipc", "--fork", "--kill-child=KILL"]
BOOTS = """while :; do
    rm -f power/reboot
    while [ -e power/hold ]; do : >power/off; sleep 0.05; done
    rm -f power/off
    "$@"
    status=$?
    [ -e power/reboot ] || exit "$status"
done"""
"""Shell loop that simulates a host's power supply.

The loop boots the host again after a reboot that the host requested (the fake systemctl writes the
file `power/reboot`); a host that crashes stays down. While `power/hold` exists the host does not
boot, and the file `power/off` shows that the loop waits.
"""

_PROBE = 'mount -t tmpfs t "$0" && mkdir "$0/l" "$0/u" "$0/m" && mount -t overlay \
-o lowerdir="$0/l",upperdir="$1/upper",workdir="$1/work" overlay "$0/m" && : >"$0/m/written"'


def reason_against(cluster: str) -> str | None:
    """Return why this machine can't run hosts in namespaces, or None.

    The function tries a mount in new namespaces.
    """
    if sys.platform != "linux":
        return "not Linux"
    if os.geteuid() != 0:
        return "not root"
    if not shutil.which("unshare"):
        return "no unshare on PATH (package util-linux)"
    folder = cluster_dir(cluster)
    if {",", ":", " ", "\\"} & set(str(folder)):
        return f"the cache's path {folder} has a comma, colon, space or backslash"
    trial = folder / "overlay-trial"
    shutil.rmtree(trial, ignore_errors=True)
    for name in ("upper", "work", "mount"):
        (trial / name).mkdir(parents=True)
    try:
        tried = subprocess.run(
            [*UNSHARE, "sh", "-c", _PROBE, str(trial / "mount"), str(trial)],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=TRIAL_LIMIT,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"a trial overlay mount in new namespaces did not end within {TRIAL_LIMIT} s"
    finally:
        shutil.rmtree(trial, ignore_errors=True)
    if tried.returncode != 0:
        return f"a trial overlay mount in new namespaces failed: {tried.stderr.strip()[-200:]}"
    return rootfs.reason_against()


@dataclass(frozen=True)
class Equipment:
    """Extension that starts more in a simulated host, such as a real container runtime.

    Attributes:
        script: Shell script that `boot.sh` sources before it switches to the host's root.
        around: Command prefix for the host's first process, for example to put it in further
            namespaces.
    """

    script: Path
    around: Sequence[str]


def start(folder: Path, spec: Spec, equipment: Equipment | None = None) -> None:
    """Boot the host in `folder`; its SSH server responds only some tenths of a second later."""
    for name in ("upper", "merged", "power"):
        (folder / name).mkdir(exist_ok=True)
    work = folder / "work"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir()
    (folder / "ssh" / "sshd_config").write_text(sshd_config(spec))
    around = equipment.around if equipment else ()
    processes.spawn(
        [*around, "sh", "-c", f'cd "$0" && {BOOTS}', str(folder), *UNSHARE, "sh", str(BOOT)],
        folder,
        {
            "HOST_NAME": spec.name,
            "HOST_USER": spec.user,
            "LOWER": spec.lower,
            "LAYER": spec.layer,
            "GPUS": str(spec.gpus),
            "DRIVER": spec.driver,
            "EQUIPMENT": str(equipment.script) if equipment else "",
        },
    )


def sshd_config(spec: Spec) -> str:
    """Return a host's sshd configuration (sshd_config(5)).

    sshd listens on one address and accepts only keys, without PAM.
    """
    address = f"[{spec.address}]" if ":" in spec.address else spec.address
    lines = (
        f"ListenAddress {address}:{spec.port}",
        "HostKey /run/gpu-cluster-ssh/host_key",
        # The second file is the first of sshd's default, for a key that a person adds on the host.
        "AuthorizedKeysFile /run/gpu-cluster-ssh/authorized_keys .ssh/authorized_keys",
        "PidFile none",
        "PermitRootLogin prohibit-password",
        "PasswordAuthentication no",
        "KbdInteractiveAuthentication no",
        "UsePAM no",
        "UseDNS no",
        "StrictModes no",
        "MaxStartups 200:30:400",
        "Subsystem sftp internal-sftp",
    )
    return "\n".join(lines) + "\n"


def root(folder: Path) -> Path | None:
    """Return the root of a running host's file system as seen from this machine."""
    # The oldest process is the host's first process, which runs as long as the host does. The
    # lowest pid may not be the oldest because pids wrap around.
    for pid in sorted(processes.find(folder), key=processes.started):
        view = Path(f"/proc/{pid}/root")
        if (view / "run/gpu-cluster-simulated").exists():
            return view
    return None
