"""The host probe: a script that reports facts about a host, and the parser of its output.

The script changes nothing. It reports hardware and software of the host, and whether the files and
values that each phase has applied are unchanged. A step's script file can extend the probe: the
part of the file after `MARK` becomes part of the probe.
"""

from __future__ import annotations

import functools
import re
import time
from collections.abc import Iterable, Mapping
from pathlib import Path

from gpu_cluster.host_facts import HostFacts
from gpu_cluster.hosts.script import FOLDER
from gpu_cluster.ssh.answers import ANSWER, BOOT_ID_FORM, Channel, Unreadable
from gpu_rules.printable import printable

MARK = "# --- found later: the probe has this part too ---\n"
"""Line in a step's script after which the functions for the probe begin.

The functions are `found_<kind>`, `list_<kind>` and those that they call.
"""
HARDWARE = ("gpu", "rdma", "memory", "rows", "unreached")
"""Keys of repeated lines about single devices, and about registries and licence servers.

`gpu_cluster.hosts.observed.hardware` parses the lines about devices.
"""
DEVICES = 64
"""Maximum number of lines of each kind that are kept."""
SHOWN = 60
"""Maximum number of characters of a value that an error shows."""
LONGEST = 1024
"""Maximum number of characters of one value that are kept."""
_DIGITS = re.compile(r"[0-9]{1,15}")
_PHASE = r"[a-z_-]{1,32}"
_COUNT, _YES = r"[0-9]{1,15}", r"(?:yes|no)?"
_VERSION, _WORD = r"[0-9A-Za-z.~+-]{0,128}", r"[!-~]{0,256}"
_COUNTS = ("nvidia_devices", "nvswitches", "cgroup", "disk_free_mib", "clock")
_TRUTHS = (
    "kubelet_cgroup_v1",
    "headers",
    "secure_boot",
    "driver_container",
    "reboot_required",
    "simulated",
)
FORMS: Mapping[str, re.Pattern[str]] = {
    key: re.compile(form, re.DOTALL)
    for key, form in {
        **dict.fromkeys(("os", "arch", "kernel", "runtime_mode", "governor", "driver"), _WORD),
        **dict.fromkeys(("containerd", "runc", "toolkit", "docker", "crio"), _VERSION),
        **dict.fromkeys(_COUNTS, _COUNT),
        **dict.fromkeys((*_TRUTHS, "peermem", "open_modules"), _YES),
        "foreign": r"[a-z0-9 -]{0,64}",
        "os_version": r"[ -~]{0,64}",
        "os_name": r".{0,512}",
        "image": r"[a-z, -]{0,32}",
        "tegra": r".{0,512}",
        "distribution": r"k3s|rke2",
        "loaded": r"[a-z0-9_]{1,64}",
        "installed": _VERSION,
        "default_runtime": r"[0-9A-Za-z._-]{0,64}",
        "nvidia_smi": r"[0-9]{1,3} .{0,400}",
        "fabric": r"[a-z]{1,16} [0-9.]{0,32}",
        "imex": r"[a-z]{0,16}",
        "uuid": r"[!-~]{0,64}",
        "leftover": r"[a-z-]{1,32}(?: [!-~]{0,256})?",
        "boot_id": f"(?:{BOOT_ID_FORM})?",
        "numa": r"[0-9,-]{1,256}",
        "unreached": r"[0-9A-Za-z.:\[\]-]{1,300}",
        "now": r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z",
        "applied": _PHASE,
        "digest": f"{_PHASE} (?:[0-9a-f]{{64}}|missing) .*",
        "disrupts": f"{_PHASE} .*",
        "drift": f"{_PHASE} .*",
        "setting": f"{_PHASE}(?: .*)?",
        "step": f"{_PHASE} .*",
        "unfinished": _PHASE,
        "end": "ok",
    }.items()
}
"""Pattern of the values by key; a value of another key is free text, which is truncated."""


@functools.cache
def probe() -> str:
    """Return the script that `gpu_cluster.hosts.observed.inspect` runs on each host."""
    text = (Path(__file__).parent / "probe.sh").read_text()
    head, gap, body = text.partition("\n\n")
    step_parts = [file.read_text().partition(MARK)[2] for file in sorted(FOLDER.rglob("*.sh"))]
    return "".join([head, gap, *filter(None, step_parts), "\n", body])


def parse(lines: Iterable[str], now: float | None = None) -> HostFacts:
    """Return the facts in the probe's output lines. Unknown keys are ignored.

    Args:
        lines: Lines of the form `key=value`.
        now: Time of this machine's clock when the probe ended, to compute the skew. None: unknown
            skew.
    """
    single: dict[str, str] = {}
    recorded_kinds = ("applied", "digest", "disrupts", "drift", "setting", "step", "unfinished")
    kinds = (*recorded_kinds, "distribution", "leftover", "loaded", "reboot", "uuid", *HARDWARE)
    repeated: dict[str, list[str]] = {name: [] for name in kinds}
    for line in lines:
        key, separator, value = line.partition("=")
        if separator:
            value = printable(value, LONGEST)
            repeated.get(key, []).append(value)
            single[key] = value
    settings: dict[str, dict[str, str]] = {}
    for phase, name, words in (_split_fields(value, 3) for value in repeated["setting"]):
        settings.setdefault(phase, {}).update({name: words} if name else {})
    digests = [_split_fields(value, 3) for value in repeated["digest"]]
    return HostFacts(
        os=single.get("os", ""),
        os_version=single.get("os_version", ""),
        os_name=single.get("os_name", "")[:SHOWN],
        image=single.get("image", ""),
        tegra=single.get("tegra", "")[:SHOWN],
        arch=single.get("arch", ""),
        kernel=single.get("kernel", ""),
        nvidia_devices=_number_or_zero(single.get("nvidia_devices")),
        loaded=tuple(repeated["loaded"]),
        driver=single.get("driver") or None,
        containerd=single.get("containerd") or None,
        runc=single.get("runc") or None,
        toolkit=single.get("toolkit") or None,
        docker=single.get("docker") or None,
        crio=single.get("crio") or None,
        distributions=tuple(repeated["distribution"]),
        headers=single.get("headers") == "yes",
        secure_boot={"yes": True, "no": False}.get(single.get("secure_boot", "")),
        driver_container=single.get("driver_container") == "yes",
        nvswitches=_number_or_zero(single.get("nvswitches")),
        skew=_number_or_zero(single["clock"]) - now if now and "clock" in single else None,
        runtime_mode=single.get("runtime_mode", ""),
        default_runtime=single.get("default_runtime", ""),
        installed=single.get("installed", ""),
        nvidia_smi=single.get("nvidia_smi", ""),
        fabric=single.get("fabric", ""),
        imex=single.get("imex", ""),
        leftovers=tuple(repeated["leftover"])[:DEVICES],
        uuids=_sort_devices(repeated["uuid"]),
        swap=tuple(single.get("swap", "").split()),
        cgroup=_number_or_zero(single.get("cgroup")),
        kubelet_cgroup_v1=single.get("kubelet_cgroup_v1") == "yes",
        foreign=tuple(single.get("foreign", "").split()),
        disk_free_mib=_number_or_zero(single.get("disk_free_mib")),
        package_lock=single.get("package_lock", ""),
        boot_id=single.get("boot_id", ""),
        reboot=tuple(repeated["reboot"]),
        reboot_required=single.get("reboot_required") == "yes",
        simulated=single.get("simulated") == "yes",
        unreached=_sort_devices(repeated["unreached"]),
        peermem=single.get("peermem") == "yes",
        open_modules=single.get("open_modules") == "yes",
        governor=single.get("governor") or "-",
        numa=single.get("numa") or "-",
        gpus=_sort_devices(repeated["gpu"]),
        rdma=_sort_devices(repeated["rdma"]),
        memory=_sort_devices(repeated["memory"]),
        rows=_sort_devices(repeated["rows"]),
        now=single.get("now", ""),
        applied=tuple(repeated["applied"]),
        digests={path: digest for _, digest, path in sorted(digests)},
        disrupts={
            phase: "\n".join(lines) for phase, lines in _by_phase(repeated["disrupts"]).items()
        },
        drift=_by_phase(sorted(repeated["drift"], key=lambda value: _split_fields(value, 2))),
        settings=settings,
        steps=_by_phase(repeated["step"]),
        unfinished=tuple(repeated["unfinished"]),
    )


def _by_phase(values: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """Return the texts after the phase in values of the form `phase text`, by phase."""
    texts: dict[str, list[str]] = {}
    for phase, text in (_split_fields(value, 2) for value in values):
        texts.setdefault(phase, []).append(text)
    return {phase: tuple(each) for phase, each in texts.items()}


def answer(text: str) -> HostFacts:
    """Return the facts in the complete output of a host probe that has just ended.

    Unknown keys are ignored, because a host may run another release's copy of the probe (`make
    probe-key`).

    Raises:
        Unreadable: The output is truncated, or a value does not fit the pattern of its key.
    """
    lines = text.split("\n")
    if lines[-2:] != ["end=ok", ""]:
        raise Unreadable("the probe's output doesn't end with end=ok")
    for line in lines:
        key, _, value = line.partition("=")
        if key in FORMS and not FORMS[key].fullmatch(value):
            value_text = printable(value, SHOWN)
            raise Unreadable(
                f"the probe's output has {key}={value_text}, which the probe never prints"
            )
    # The probe reads the clock at its end, and the output arrives in less than a second.
    return parse(lines, time.time())


PROBE = Channel("probe", ANSWER, answer)


def _split_fields(text: str, count: int) -> tuple[str, ...]:
    words = text.split(" ", count - 1)
    return tuple(words + [""] * (count - len(words)))


def _sort_devices(lines: list[str]) -> tuple[str, ...]:
    """Sort the probe's lines, because programs in the background print them in any order."""
    return tuple(sorted(lines)[:DEVICES])


def _number_or_zero(text: str | None) -> int:
    return int(text) if text and _DIGITS.fullmatch(text) else 0
