"""Attack: names and messages that contain escape sequences or GitHub workflow commands."""

from __future__ import annotations

import asyncio
import contextlib
import json
from pathlib import Path

import httpx
import pytest
from command_provider.output import visible

from gpu_cluster.desired.resolve import resolve
from gpu_cluster.host_facts import HostFacts
from gpu_cluster.hosts.observed.probe import parse
from gpu_cluster.hosts.observed.table import table
from gpu_cluster.inspection.judgement import Seen, judged
from gpu_cluster.inspection.observed_cluster import ClusterSeen
from gpu_cluster.kubernetes.api import Refused
from gpu_rules.check.__main__ import main
from gpu_rules.faults import Fault
from gpu_rules.printable import printable, printable_lines
from tests.fixtures.api import client
from tests.proofs.attacks.samples import cluster, is_safe
from tests.toolchain.plugins.rig import Failed, Plugin

TITLE, CLEAR, TURN = "\x1b]0;owned\x07", "\x1b[2J\x1b[1;1H", "\u202ednuor"
HOSTILE = (
    TITLE,
    CLEAR,
    TURN,
    "a\r\x1b[1Ab",
    "\x9b31m",
    "a\u2028b",
    "::add-mask::a",
    "  ::error::x",
)


@pytest.mark.parametrize("text", [*HOSTILE, "x ##[add-mask]a", "\n::stop-commands::a", "\ud800"])
def test_what_is_shown_is_no_instruction(text: str) -> None:
    assert is_safe(printable(text))
    assert "\n" not in printable(text)
    assert is_safe(printable_lines(f"first\n{text}\nlast"))
    assert is_safe(visible(text.replace("\ud800", "")))
    assert is_safe(str(Fault(text, text, text, text)))


def test_what_is_no_instruction_stays_as_it_is() -> None:
    for text in ("gpu-1: 8 of 8 \u2014 größer, µs", "a::b", "https://x/#a", "## [a]", "日本"):
        assert (printable(text), visible(text)) == (text, text)


@pytest.mark.parametrize("text", HOSTILE)
def test_the_table_of_hosts_shows_what_they_say_as_text(text: str) -> None:
    hosts = cluster().hosts
    keys = ("os", "kernel", "driver", "containerd", "toolkit", "package_lock", "boot_id", "now")
    for facts in (parse([f"{key}={text}" for key in keys]), parse(["os=debian", f"reboot={text}"])):
        assert is_safe(table(hosts, {"gpu-1": facts}, {}))


@pytest.mark.parametrize("text", HOSTILE)
def test_no_finding_of_an_inspection_is_an_instruction(text: str) -> None:
    seen = Seen(
        hosts={"gpu-1": HostFacts(os=text, kernel=text, arch=text, package_lock=text)},
        cluster=ClusterSeen(problems=(f"node {text}: missing",), unreachable=text),
        problems=(text,),
        reasons=text,
    )
    result = judged(resolve(cluster(), "dev"), seen)
    assert result.problems
    assert is_safe("\n".join((*result.problems, *result.warnings, result.unreachable)))


@pytest.mark.parametrize("text", HOSTILE)
def test_no_refusal_of_an_api_server_is_an_instruction(text: str) -> None:
    refusing = client(lambda _: httpx.Response(403, content=json.dumps({"message": text})))
    with pytest.raises(Refused) as error:
        asyncio.run(refusing.request("GET", "nodes"))
    assert is_safe(str(error.value))


def test_no_output_of_a_command_is_an_instruction() -> None:
    plugin = Plugin()
    try:
        with pytest.raises(Failed) as error:
            plugin.create(
                "command:local:Command",
                create=r"printf '\033[2J\n::add-mask::a\n a ##[error]b\r\n'; exit 1",
            )
        shown = plugin.shown
    finally:
        plugin.close()
    assert is_safe(str(error.value))
    assert is_safe(shown)
    assert "\\x1b[2J" in shown


@pytest.mark.parametrize("form", ["text", "github"])
@pytest.mark.parametrize("text", HOSTILE)
def test_the_checker_shows_names_of_a_pull_request_as_text(
    form: str, text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    container = {"name": text, "image": text, "resources": {"limits": {"nvidia.com/gpu": "1"}}}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": text, "namespace": text},
        "spec": {"containers": [container]},
    }
    (tmp_path / "pod.yaml").write_text(json.dumps(pod))
    (tmp_path / "bad.yaml").write_text(json.dumps({"apiVersion": text, "kind": text}) + "\n---\n[")
    with contextlib.suppress(SystemExit):
        main(["--format", form, str(tmp_path)])
    out = capsys.readouterr().out
    lines = [line for line in out.split("\n") if not line.startswith(("::error ", "::warning "))]
    assert len(out) > 100
    assert is_safe("\n".join(lines))
    assert all(line.isprintable() for line in out.split("\n"))
