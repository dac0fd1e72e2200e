"""What is read from outside, each with what must hold of it whatever it is.

Each target takes a value of JSON and raises what is a fault: an exception that isn't ours, an
instruction to a terminal, a secret. `test_fuzz.py` makes values by structure, `fuzz.py` by changing
those of the corpus.
"""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from command_provider.output import Redactor, visible

import commands.probe_key  # noqa: F401 -- has a channel
import components.hosts.reboot.reboot
import components.validation.xid  # noqa: F401 -- has a channel
from components.base.yaml_file import parse as parse_yaml
from components.desired.pool import PoolScheduling
from components.desired.resolve import resolve
from components.findings import lines as finding_lines
from components.hosts.kubeadm.access import ACCESS, Access, check_key
from components.hosts.observed.probe import LONGEST, PROBE, parse
from components.inspection.judgement import Seen, judged
from components.kubernetes.api import ClusterError
from components.kubernetes.grammar import IllFormed
from components.nodes import gpu_holders, record
from components.nodes.difference import compare
from components.nodes.drain import losses, to_evict
from components.nodes.inspect import count_devices, gpus, pool_members, shortfall
from components.release.helm_record import decode_release, expected
from components.settings.cluster import Cluster
from components.ssh.answers import CHANNELS, last_lines
from components.validation import container_result as judging
from components.validation import waiting
from policies.faults import FaultError, InputError
from policies.printable import printable, printable_lines
from policies.rules import quantity
from tests.attacks import samples

Json = dict[str, Any]
CANARY = "canary5f1d0c2bb7"


def refusal(read: Callable[[], Any], kind: type[Exception]) -> str:
    """Why something isn't taken, in words; empty where it is. Another exception is a fault."""
    try:
        read()
    except kind as error:
        return str(error)
    return ""


@cache
def _cluster() -> Cluster:
    return samples.cluster()


ENDPOINT = "192.0.2.9:6443"
"""The declared one, to which `corpus/host-access.json` was made."""
WRITTEN = frozenset(
    {"server", "certificate-authority-data", "client-certificate-data", "client-key-data"}
)


def channel(name: str) -> Callable[[str], None]:
    """Whatever a host prints to a channel: a value that can be shown, or refused in one line."""

    read = CHANNELS[name].read

    def check(text: str) -> None:
        values: list[object] = []
        said = refusal(lambda: values.append(read(text)), ValueError)
        assert samples.is_safe(said)
        assert "\n" not in said
        assert len(said) < 1000
        for value in values:
            for part in value if isinstance(value, list) else [value]:
                assert part in (None, True, False) or samples.is_safe(str(part))
                assert len(str(part)) < 2000

    return check


def probed(text: str) -> None:
    """A host's answer to the probe as it comes: facts that can be judged, or refused."""
    said = refusal(lambda: PROBE.read(text), ValueError)
    assert said.isprintable()
    assert len(said) < 1000
    if not said:
        answer(text.split("\n"))


def access(text: str) -> None:
    """A control-plane host's answer: four values of the declared cluster, or refused."""
    found: list[Access] = []
    for read in (
        lambda: found.append(ACCESS.read(text, "cp-1", ENDPOINT)),
        lambda: check_key(found[0].administrator) if found else None,
    ):
        kinds: type[Exception] = FaultError if len(text) <= ACCESS.limit else ValueError
        said = refusal(read, kinds)
        assert said.isprintable()
        assert len(said) < 5000
    for one in found:
        taken = one.administrator
        assert taken.server == f"https://{ENDPOINT}"
        assert {*taken.cluster, *taken.user} == WRITTEN
        for value in (taken.authority, taken.certificate, taken.key):
            base64.b64decode(value, validate=True)


def errors(text: str) -> None:
    """What a host's script writes to standard error: a few lines that can be shown."""
    lines = last_lines(text)
    assert len(lines) <= 8
    for line in lines:
        assert samples.is_safe(line)
        assert len(line) < 11_000  # each character may be an escape


def answer(lines: list[str]) -> None:
    """A host's answer to the probe: facts, and findings that are text."""
    facts = parse(lines, 0.0)
    for value in vars(facts).values():
        for text in (value,) if isinstance(value, str) else ():
            assert text.isprintable()
            assert len(text) <= 10 * LONGEST + 40  # each character may be an escape
    result = judged(resolve(_cluster(), "dev"), Seen(hosts={"gpu-1": facts}))
    assert samples.is_safe("\n".join((*result.problems, *result.warnings)))
    for line in finding_lines(result.difference.findings):
        assert line.isprintable()


def secret(given: Json) -> None:
    """A Secret of Helm's: a record, or refused. ``text``: its content; ``packed``, ``cut``: how."""
    content = given["text"].encode("utf-8", "surrogatepass")
    content = gzip.compress(content, 1) if given["packed"] else content
    content = content[:-3] if given["cut"] else content
    data = base64.b64encode(base64.b64encode(content)).decode()
    _release(data)


def release(data: str) -> None:
    """The same, of any text in the place of base64."""
    _release(data)


def _release(data: str) -> None:
    held = {"metadata": {"name": "x", "namespace": "y"}, "data": {"release": data}}

    def read() -> None:
        manifest = decode_release(held).get("manifest")
        if isinstance(manifest, str):
            expected(manifest)

    assert refusal(read, IllFormed).isprintable()


def manifest(text: str) -> None:
    """A release's manifest: objects, or refused."""

    def read() -> None:
        for item in expected(text):
            assert str(item).isprintable()
            assert "/" not in item.name

    assert refusal(read, IllFormed).isprintable()


def document(text: str) -> None:
    """A file: YAML, or refused."""
    assert isinstance(refusal(lambda: parse_yaml(text), InputError), str)


ASKED = PoolScheduling(
    context="c",
    pool="a",
    selector={"": ""},
    manager="m",
    labels={"a": "b"},
    taints=({"key": "k", "value": "v", "effect": "NoSchedule"},),
)


def nodes(listed: list[Json]) -> None:
    """Nodes as an API server lists them: judged, or refused by name."""
    for node in listed:
        assert 0 <= gpus(node) < 10**6
        assert isinstance(shortfall(node, 8, {"nvidia.com/gpu": 8}), str)
    assert len(count_devices(listed, [], "gpu.nvidia.com")) == len(listed)
    ways: tuple[Json, ...] = ({"selector": {}}, {"nodes": ("gpu-1",)}, {"selector": {"": ""}})
    for by in ways:
        asked = replace(ASKED, **{"count": len(listed), **by})
        try:
            members = pool_members(listed, asked)
        except ClusterError as error:
            said, members = str(error), []
            assert samples.is_safe(printable_lines(said))
        differing = compare(listed, {asked.pool: members}, [asked], {})
        assert all(line.isprintable() for line in finding_lines(differing.findings))


def pods(given: Json) -> None:
    """Pods, a log, a node's record of its validation: judged."""
    listed, log, annotation = given["pods"], given["log"], given["record"]
    going = to_evict(listed)
    assert len(going) <= len(listed)
    assert losses(going, ()).isprintable()
    for pod in listed:
        assert judging.refusal(pod).isprintable()
        assert waiting.reason(pod).isprintable()
        assert all(amount >= 0 for amount in gpu_holders.asked(pod, ["nvidia.com/gpu"]).values())
        for status in pod["status"].get("containerStatuses", []):
            assert judging.read_result(status, log).problem.isprintable()
    node = {"metadata": {"name": "gpu-1", "annotations": {record.RECORD: annotation}}}
    kept = record.decode(node)
    assert kept is None or record.decode({"metadata": {"annotations": {
        record.RECORD: record.encode(kept)}}}) == kept  # fmt: skip


def amount(value: Any) -> None:
    """A quantity: read, or refused in a bounded text."""
    said = refusal(lambda: quantity.parse(value), quantity.QuantityError)
    assert len(said) < 10_000


def hidden(given: Json) -> None:
    """A secret in a document of several forms: gone from every text about it."""
    before, after, name = given["before"], given["after"], given["name"]
    plain = json.dumps({"a": before, name: CANARY, "z": after})
    held = {
        "json": plain,
        "nested": json.dumps({"inner": plain}),
        "assigned": f"export {name}='{CANARY}'",
        "alone": CANARY,
        "lines": f"x{after}\n{CANARY}\n",
    }[given["form"]]
    redact = Redactor([held])
    for text in (held, f"{before}{CANARY}{after}", f"{before}\n{CANARY}", plain):
        assert CANARY not in redact(text)


def shown(text: str) -> None:
    """Any text: shown as text, in one line or in its own."""
    for line in (printable(text), *printable_lines(text).split("\n")):
        assert samples.is_safe(line)
    assert printable(printable(text[:200])) == printable(text[:200])
    assert len(printable(text, 50)) < 50 * 10 + 40
    assert samples.is_safe(visible(text).replace("\t", " "))


@dataclass(frozen=True)
class Target:
    """One of them.

    Attributes:
        check: raises what is a fault.
        typed: what the API server or the test itself guarantees of the value's form; changes keep
            it: texts stay texts, and objects keep their fields.
        fixed: fields whose value is one of a few, which changes leave alone.
    """

    check: Callable[[Any], None]
    typed: bool = False
    fixed: frozenset[str] = frozenset()


HOSTS: Mapping[str, Target] = {
    "access": Target(access, typed=True),
    "probe": Target(probed, typed=True),
    **{
        name: Target(channel(name), typed=True)
        for name in ("allowed", "boot-id", "member", "nothing", "xid")
    },
}
"""Each channel of `components.ssh.answers`."""
TARGETS: Mapping[str, Target] = {
    **{f"host-{name}": target for name, target in HOSTS.items()},
    "errors": Target(errors, typed=True),
    "answer": Target(answer, typed=True),
    "secret": Target(secret, typed=True),
    "release": Target(release, typed=True),
    "manifest": Target(manifest, typed=True),
    "document": Target(document, typed=True),
    "nodes": Target(nodes, typed=True),
    "pods": Target(pods, typed=True),
    "amount": Target(amount),
    "hidden": Target(hidden, typed=True, fixed=frozenset({"form", "name"})),
    "shown": Target(shown, typed=True),
}
