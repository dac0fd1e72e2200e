"""The page of error texts names each text of the code."""

from __future__ import annotations

import re

import pytest

from tests import error_texts
from tests.error_texts import ErrorText, Mark, of_module, of_script


@pytest.mark.promise("Each error text of the program has an anchor on the page of error texts.")
def test_the_page_is_that_of_the_code() -> None:
    text = error_texts.PAGE.read_text(encoding="utf-8")
    assert text == error_texts.page(), "run `make errors`"
    anchors = re.findall(r'<a id="([^"]+)"></a>', text)
    assert len(anchors) == len(set(anchors)) == len(error_texts.errors()) > 500


def test_a_fault_is_found_with_the_names_that_its_function_gives_to_texts() -> None:
    text = """
def check(name):
    found, cure = "no pool " + name, "add it"
    if name:
        raise FaultError(Fault(f"pools.{name}", found, "a declared pool", cure=cure))
    raise ClusterError(f"node {name}: found no such node")
"""
    assert list(of_module("components/x.py", text)) == [
        ErrorText(
            "components/x.py", "found no pool …; wanted: a declared pool", "add it", Mark.CURE
        ),
        ErrorText("components/x.py", "node …: found no such node"),
    ]


def test_a_scripts_texts_are_found_without_its_variables() -> None:
    text = """
    fail "found $1 in use ($(tail -n 1 "$log")); end ${name%.*} first, or \\`umount\\` it"
    # fail "a comment"
    """
    assert list(of_script("components/x.sh", text)) == [
        ErrorText("components/x.sh", "found … in use (…)", "end … first, or `umount` it", Mark.CURE)
    ]


# Errors that users describe who set up clusters by the GPU Operator, by the device plugin,
# by gpu-manager, by kubespray and by hand.
@pytest.mark.parametrize(
    "seen",
    [
        "`cuda-vectoradd` is `NotReady`",
        'no runtime for "nvidia" is configured',
        "UnexpectedAdmissionError",
        "`nvidia-device-plugin-validator` does not become `Completed`",
        "Failed to initialize NVML: Unknown Error",
        "advertises 0 GPUs",
        "other UUIDs after a virtual machine was moved",
        "/devices.allow: no such file or directory",
        "OCI runtime create failed",
        "failed to generate spec: lstat /dev/nvidia-uvm: no such file or directory",
        "socat not found",
        "`tencent.com/vcuda-core: 150` is refused",
        "An NVIDIA kernel module 'nvidia' appears to already be loaded in your kernel",
        "driver … for CUDA 10.2 …",
        "untolerated taint",
        "Unable to find the kernel source tree for the currently running kernel",
        "known not to build",
        "`nouveau`",
        "fails in a graphical session",
        "`kdump` is `Failed`",
        "bypasses iptables",
        "swap is on again after a boot",
        "`kubelet` restarts again and again",
        "`daemon.json` are gone",
        "(`rhel9.0`, `rocky9`)",
    ],
)
def test_each_error_of_users_notes_has_a_row(seen: str) -> None:
    page = error_texts.ROOT / "docs" / "how-to" / "troubleshooting.md"
    rows = [line for line in page.read_text(encoding="utf-8").splitlines() if line.startswith("| ")]
    assert [row for row in rows if seen in row.partition(" | ")[0]] != []
