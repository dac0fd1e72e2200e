"""The script that a person runs on a host with a GPU: bounded, redacted, changes nothing."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.ci.machine import link_programs
from tests.fixtures.programs import run_program

SCRIPT = Path(__file__).parents[2] / "lab" / "seen" / "host_report.sh"
UUID = "GPU-1b0a6ab4-5c0e-4a29-93d1-1a2b3c4d5e6f"
OTHER = "GPU-9c0a6ab4-5c0e-4a29-93d1-1a2b3c4d5e6f"
SECRETS = (
    UUID,
    OTHER,
    "192.0.2.17",
    "2001:db8::7",
    "04:3f:72:aa:bb:cc",
    "alice:hunter2",
    "1653422001234",
    "/home/alice",
    "198.51.100.4",
)
NVIDIA_SMI = f"""#!/bin/sh
echo "GPU 0: NVIDIA H100 (UUID: {UUID})"
echo "GPU 1: NVIDIA H100 (UUID: {OTHER})"
echo "GPU 0: NVIDIA H100 (UUID: {UUID})"
echo "Serial Number: 1653422001234"
echo "node $(uname -n) at 192.0.2.17:443 and 2001:db8::7, 04:3f:72:aa:bb:cc"
echo "from https://alice:hunter2@mirror.example.org/ for /home/alice/x"
printf 'escape \\033]0;title\\007 end\\n'
"""


DRIVER = "proc/driver/nvidia/version"
FILES = {
    "proc/cmdline": "BOOT_IMAGE=/vmlinuz ip=198.51.100.4 hostname=node-7.example.org\n",
    "proc/meminfo": "MemTotal:       2113513216 kB\nHugePages_Total:       0\n",
    DRIVER: "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.159.04\n",
}
UNAME = """#!/bin/sh
case "$1" in -n) echo node-7.example.org ;; *) echo Linux 6.8.0-79-generic x86_64 ;; esac
"""
NO_MESSAGES = "#!/bin/sh\n"


def report(tmp_path: Path, **programs: str) -> str:
    """Run the script on a machine that has these files and programs only; return the report."""
    for path, text in FILES.items():
        file = tmp_path / "root" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    tools = tmp_path / "tools"
    link_programs(tools)
    folder = tmp_path / "bin"
    folder.mkdir()
    for name, text in {"uname": UNAME, "dmesg": NO_MESSAGES, **programs}.items():
        (folder / name.replace("_", "-")).write_text(text)
        (folder / name.replace("_", "-")).chmod(0o755)
    environment = {
        "PATH": f"{folder}{os.pathsep}{tools}",
        "REPORT_ROOT": str(tmp_path / "root"),
        "REPORT_SECONDS": "1",
        "REPORT_LINES": "20",
    }
    done = subprocess.run(
        ["sh", "-s"],
        input=SCRIPT.read_text(),
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    return done.stdout


def of(text: str, title: str) -> list[str]:
    """Return the lines of a section."""
    _, _, rest = text.partition(f"\n## {title}\n")
    return rest.partition("\n## ")[0].strip().splitlines()


@pytest.mark.promise(
    "`lab/seen/host_report.sh` prints facts of a GPU host without its names, addresses, UUIDs and "
    "serial numbers."
)
def test_a_report_contains_no_name_address_uuid_or_serial_number(tmp_path: Path) -> None:
    text = report(tmp_path, nvidia_smi=NVIDIA_SMI)
    lines = of(text, "GPUs")
    assert lines[:3] == [
        "GPU 0: NVIDIA H100 (UUID: <gpu-1>)",
        "GPU 1: NVIDIA H100 (UUID: <gpu-2>)",
        "GPU 0: NVIDIA H100 (UUID: <gpu-1>)",
    ]
    assert lines[3] == "<line left out>"
    assert lines[4].startswith("node <host> at <address-2> and <address6-1>")
    assert (
        of(text, "kernel command line")[0] == "BOOT_IMAGE=/vmlinuz ip=<address-1> hostname=<host>"
    )
    for secret in (*SECRETS, "\x1b", "\x07"):
        assert secret not in text, secret
    assert "node-7" not in text


def test_a_program_that_prints_without_end_is_cut(tmp_path: Path) -> None:
    text = report(tmp_path, nvidia_smi="#!/bin/sh\nexec yes a long line of a faulty program\n")
    assert len(of(text, "GPUs")) == 22
    assert len(text) < 200_000


def test_a_program_that_hangs_is_ended(tmp_path: Path) -> None:
    text = report(tmp_path, nvidia_smi="#!/bin/sh\nexec sleep 600\n")
    assert of(text, "GPUs") == ["exit status 124"]


# Lines of `nvidia-smi` of driver 580.159.04 on a virtual machine with one H200; the values of the
# section "Fabric" are those of a GPU without a fabric.
DRIVER_580 = """#!/bin/sh
case "$*" in
    -q) printf '    GPU Recovery Action                                : None\\n'
        printf '    Fabric\\n        State                                          : N/A\\n'
        printf '    Processes                                          : None\\n' ;;
    *-d*FABRIC*) echo 'Failed to parse --display/-d flags'; exit 2 ;;
    'topo -m') printf '\\t\\033[4mGPU0\\tCPU Affinity\\033[0m\\nGPU0\\t X \\t0-15\\n' ;;
esac
"""


def test_the_fabric_is_read_from_a_driver_that_does_not_show_it_alone(tmp_path: Path) -> None:
    lines = of(report(tmp_path, nvidia_smi=DRIVER_580), "fabric")
    assert [line.split() for line in lines] == [
        ["Fabric"],
        ["State", ":", "N/A"],
        ["exit", "status", "0"],
    ]


def test_underlined_headings_are_printed_without_their_escapes(tmp_path: Path) -> None:
    lines = of(report(tmp_path, nvidia_smi=DRIVER_580), "links")
    assert lines == ["GPU0\tCPU Affinity", "GPU0\t X \t0-15", "exit status 0"]


# Lines of driver 580.159.04 after a program wrote to a wrong address, with
# another UUID and serial number.
XID_31 = f"""#!/bin/sh
cat <<'END'
[  152.110824] NVRM: GPU at PCI:0000:00:06: {UUID}
[  152.110834] NVRM: GPU Board Serial Number: 1653422001234
[  152.110835] NVRM: Xid (PCI:0000:00:06): 31, pid=6791, name=bad, channel 0x0000000a
END
"""


def test_an_xid_is_reported_without_the_uuid_and_serial_number_that_the_driver_adds(
    tmp_path: Path,
) -> None:
    lines = of(
        report(tmp_path, nvidia_smi=NVIDIA_SMI, dmesg=XID_31), "kernel messages of the driver"
    )
    assert lines[0] == "[  152.110824] NVRM: GPU at PCI:0000:00:06: <gpu-1>"
    assert lines[1] == "<line left out>"
    assert "NVRM: Xid (PCI:0000:00:06): 31, pid=6791" in lines[2]


def test_nvidia_smi_is_not_run_without_a_loaded_driver(tmp_path: Path) -> None:
    ran = tmp_path / "ran"
    text = report(tmp_path, nvidia_smi=f"#!/bin/sh\nrm -f {tmp_path}/root/{DRIVER}; touch {ran}\n")
    assert ran.exists()
    ran.unlink()
    assert of(text, "links") == ["the driver is not loaded"]


@pytest.mark.skipif(os.geteuid() != 0, reason="makes a mount namespace")
def test_a_report_is_the_same_where_nothing_can_be_written(tmp_path: Path) -> None:
    held = SCRIPT.read_text()
    done = run_program(
        ["unshare", "--mount", "sh", "-c", f"mount -o remount,bind,ro / && {held}"], timeout=120
    )
    if "permission denied" in done.stderr or "unshare" in done.stderr:
        pytest.skip(done.stderr)
    assert done.returncode == 0, done.stderr
    assert "Read-only file system" not in done.stdout + done.stderr
    assert "gpu-cluster host report 1" in done.stdout
