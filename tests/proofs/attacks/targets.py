"""Fuzz targets: each parser of outside input, with the checks that hold for any input.

A target takes a JSON value. It raises an exception for a fault: an unexpected exception of the
parser, a terminal escape sequence in its output, or a leaked secret. `test_fuzz.py` generates
inputs by structure, `fuzz.py` by changing the corpus.
"""

from __future__ import annotations

import base64
import gzip
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cache, partial
from typing import Any

from command_provider.output import Redactor, visible

import gpu_cluster.commands.probe_key
import gpu_cluster.hosts.reboot.reboot
import gpu_cluster.validation.xid  # noqa: F401 -- registers a parser of host output
from gpu_cluster.base.yaml_file import parse as parse_yaml
from gpu_cluster.change.document import Document
from gpu_cluster.change.text import lines as change_lines
from gpu_cluster.change.text import object_lines
from gpu_cluster.charts.contents import of_archive
from gpu_cluster.charts.definitions import lacking_fields, lost_fields
from gpu_cluster.charts.own_values import refused_by_schema, unread
from gpu_cluster.commands.adoption import parse as adoption
from gpu_cluster.commands.adoption.draft import HostKeys, Wanted, from_inventory
from gpu_cluster.commands.adoption.machines import find, places_of
from gpu_cluster.commands.adoption.observed import ObservedCluster
from gpu_cluster.commands.adoption.owners import Deliverers, owner_of
from gpu_cluster.commands.adoption.propose import PLUGIN, propose
from gpu_cluster.commands.adoption.read import observed_release, release_edits
from gpu_cluster.commands.adoption.stack_text import new_text
from gpu_cluster.commands.annotations import of_github, of_gitlab
from gpu_cluster.commands.ansible import ini
from gpu_cluster.commands.ansible import read as inventories
from gpu_cluster.commands.ansible.inventory import Inventory
from gpu_cluster.commands.evidence import statement
from gpu_cluster.commands.evidence.envelope import public_key as evidence_key
from gpu_cluster.commands.evidence.envelope import verified
from gpu_cluster.commands.forges.comment_markdown import LIMIT, MARK, outdated, rendered
from gpu_cluster.commands.support_bundle import node_of, pod_of
from gpu_cluster.commands.usage import Listed, PodDevices, Usage, usage
from gpu_cluster.commands.utilization import (
    LISTS,
    Measured,
    MeasuringError,
    merge,
    read_values,
    read_versions,
)
from gpu_cluster.commands.who import last_lines as last_lines_of_who
from gpu_cluster.desired.pool import PoolScheduling
from gpu_cluster.desired.resolve import resolve
from gpu_cluster.findings import lines as finding_lines
from gpu_cluster.hosts.kubeadm.access import ACCESS, Access, check_key
from gpu_cluster.hosts.observed.probe import LONGEST, PROBE, parse
from gpu_cluster.inspection.judgement import Seen, judged
from gpu_cluster.kubernetes.api import ClusterError
from gpu_cluster.kubernetes.grammar import IllFormed
from gpu_cluster.nodes import record
from gpu_cluster.nodes.causes.cause import Around
from gpu_cluster.nodes.causes.pod import cause_of
from gpu_cluster.nodes.difference import compare
from gpu_cluster.nodes.drain import losses, to_evict
from gpu_cluster.nodes.inspect import count_devices, gpus, pool_members, shortfall
from gpu_cluster.release.helm_record import decode_release, expected
from gpu_cluster.settings.cluster import Cluster
from gpu_cluster.ssh.answers import CHANNELS, last_lines
from gpu_cluster.validation import container_result as judging
from gpu_cluster.validation import waiting
from gpu_rules.faults import Fault, FaultError, InputError
from gpu_rules.kube import quantity
from gpu_rules.kube.pod_resources import device_requests
from gpu_rules.printable import printable, printable_lines
from tests.commands import usages
from tests.fixtures import charts
from tests.proofs.attacks import samples

Json = dict[str, Any]
CANARY = "canary5f1d0c2bb7"
KEY = b"""-----BEGIN PUBLIC KEY-----
MCowBQYDK2VwAyEAiojj3XQJ8ZX9UtstPLpdcspnCb8dlBIb83SIAbQPb1w=
-----END PUBLIC KEY-----
"""
"""Public key of the envelope in `corpus/evidence.json`, made for these tests."""


def refusal(read: Callable[[], Any], kind: type[Exception]) -> str:
    """Call `act` and return the text of the expected exception; "" if nothing was raised.

    Any other exception counts as a fault of the parser.
    """
    try:
        read()
    except kind as error:
        return str(error)
    return ""


@cache
def _cluster() -> Cluster:
    return samples.cluster()


ENDPOINT = "192.0.2.9:6443"
"""API server endpoint of the declared cluster, which `corpus/host-access.json` contains."""
WRITTEN = frozenset(
    {"server", "certificate-authority-data", "client-certificate-data", "client-key-data"}
)


def channel(name: str) -> Callable[[str], None]:
    """Return a fuzz check of one channel, which is a parser for one kind of host output.

    Whatever the output is, the parser must return a printable value or raise a one-line error.
    """
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
    """Check that any output of the host probe gives facts that can be evaluated, or an error."""
    said = refusal(lambda: PROBE.read(text), ValueError)
    assert said.isprintable()
    assert len(said) < 1000
    if not said:
        answer(text.split("\n"))


def access(text: str) -> None:
    """Check that any output of a control-plane host gives valid cluster access, or an error."""
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
    """Check that any error output of a host script is reduced to a few printable lines."""
    lines = last_lines(text)
    assert len(lines) <= 8
    for line in lines:
        assert samples.is_safe(line)
        # Escaping can turn each character into up to ten, such as `\U0001f600`.
        assert len(line) < 11_000


def answer(lines: list[str]) -> None:
    """Check that any output of the host probe gives printable facts and findings."""
    facts = parse(lines, 0.0)
    for value in vars(facts).values():
        for text in (value,) if isinstance(value, str) else ():
            assert text.isprintable()
            # Escaping can turn each character into up to ten, such as `\U0001f600`.
            assert len(text) <= 10 * LONGEST + 40
    result = judged(resolve(_cluster(), "dev"), Seen(hosts={"gpu-1": facts}))
    assert samples.is_safe("\n".join((*result.problems, *result.warnings)))
    for line in finding_lines(result.difference.findings):
        assert line.isprintable()


def secret(given: Json) -> None:
    """Check that any Secret of Helm gives a release record, or an error.

    Args:
        given: Object with three fields: the record's content (`text`), whether the content is
            compressed with gzip (`packed`), and whether its last bytes are missing (`cut`).
    """
    content = given["text"].encode("utf-8", "surrogatepass")
    content = gzip.compress(content, 1) if given["packed"] else content
    content = content[:-3] if given["cut"] else content
    data = base64.b64encode(base64.b64encode(content)).decode()
    _release(data)


def release(data: str) -> None:
    """Check that any text in place of a Secret's base64 data gives a release record or an error."""
    _release(data)


def _release(data: str) -> None:
    held = {"metadata": {"name": "x", "namespace": "y"}, "data": {"release": data}}

    def read() -> None:
        manifest = decode_release(held).get("manifest")
        if isinstance(manifest, str):
            expected(manifest)

    assert refusal(read, IllFormed).isprintable()


def chart(files: dict[str, str]) -> None:
    """Check that any files of a Helm chart give its content and differences, or an error."""
    archive = charts.packed("chart", files)

    def read() -> None:
        content = of_archive(archive)
        values = dict(content.values)
        named = [*unread(content, values), refused_by_schema(content, values)]
        for definition in content.definitions.values():
            named += lacking_fields(definition, content.values)
            named += lacking_fields(content.values, definition)
            named += lost_fields(definition, content.values)
        printable(str(named))

    refusal(read, ValueError)


def manifest(text: str) -> None:
    """Check that any manifest of a Helm release gives objects, or an error."""

    def read() -> None:
        for item in expected(text):
            assert str(item).isprintable()
            assert "/" not in item.name

    assert refusal(read, IllFormed).isprintable()


def document(text: str) -> None:
    """Check that any file is parsed as YAML or gives an error."""
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
    """Check that any list of Nodes can be evaluated, or gives an error that names the Node."""
    for node in listed:
        assert 0 <= gpus(node) < 10**6
        assert json.dumps(node_of(node)).isprintable()
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


def cluster(given: Json) -> None:
    """Check that adoption proposes settings for a cluster, or gives an error.

    An error must name the Kubernetes object that was rejected.

    Args:
        given: Object with three fields: a Node (`node`), a DaemonSet (`set`), and a Helm release
            record (`release`) whose manifest is that DaemonSet.
    """
    item, recorded = given["set"], given["release"]
    owners = Deliverers(applications=(), helm_releases=(), addon_manager=True)

    def read() -> None:
        owner = owner_of(item, "DaemonSet", owners)
        observed = ObservedCluster(
            version="v1.36.3",
            nodes=(adoption.node(given["node"]),),
            workloads=(adoption.workload(item, "DaemonSet", PLUGIN, owner),),
            releases=(observed_release(recorded, "nvdp", "kube-system"),),
        )
        release_edits(recorded["manifest"], {("DaemonSet", "nvdp"): item})
        proposal = propose(observed, "test")
        for line in (*map(str, proposal.refused), *map(printable, proposal.notes)):
            assert line.isprintable()
        assert parse_yaml(new_text(proposal.settings)).value

    assert refusal(read, IllFormed).isprintable()


def inventory(given: Json) -> None:
    """Check that any inventory of Ansible becomes the text of a stack file, or is refused.

    Args:
        given: An inventory as INI text (`ini`), and one as a YAML document (`yaml`).
    """

    def drafted(read: Callable[[], Inventory]) -> None:
        found = find(read())
        keys = HostKeys(scanned=dict.fromkeys(places_of(found.machines), samples.HOST_KEY))
        text = from_inventory(found, Wanted(), "test", keys).text
        assert samples.is_safe(text)
        assert parse_yaml(text).value["config"]

    for read in (
        lambda: ini.parse(given["ini"]),
        lambda: inventories.parse_yaml(json.dumps(given["yaml"])),
    ):
        refused = ""
        try:
            drafted(read)
        except InputError as error:
            refused = str(Fault("the inventory", error.found, error.wanted, error.cure))
        assert refused.isprintable()


def pods(given: Json) -> None:
    """Check that any pods, logs and validation record of a node can be evaluated."""
    listed, log, annotation = given["pods"], given["log"], given["record"]
    node: Json = {"metadata": {"name": "gpu-1", "annotations": {record.RECORD: annotation}},
                  "spec": {}}  # fmt: skip
    going = to_evict(listed)
    assert len(going) <= len(listed)
    assert losses(going, ()).isprintable()
    around = Around(nodes=(node,), pods=tuple(listed), logs={"gpu-0": log})
    for pod in listed:
        assert judging.refusal(pod).isprintable()
        assert waiting.reason(pod).isprintable()
        assert json.dumps(pod_of(pod)).isprintable()
        assert str(cause_of(pod, around)).isprintable()
        assert all(amount > 0 for amount in device_requests(pod).values())
        for status in pod["status"].get("containerStatuses", []):
            assert judging.read_result(status, log).problem.isprintable()
    kept = record.decode(node)
    assert kept is None or record.decode({"metadata": {"annotations": {
        record.RECORD: record.encode(kept)}}}) == kept  # fmt: skip


def amount(value: Any) -> None:
    """Check that any Kubernetes quantity is parsed or gives an error of bounded length."""
    said = refusal(lambda: quantity.parse(value), quantity.QuantityError)
    assert len(said) < 10_000


def hidden(given: Json) -> None:
    """Check that a secret is removed from error messages about a document, whatever its format."""
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
    """Check that any text can be made printable, as one line or line by line."""
    for line in (printable(text), *printable_lines(text).split("\n")):
        assert samples.is_safe(line)
    assert printable(printable(text[:200])) == printable(text[:200])
    assert len(printable(text, 50)) < 50 * 10 + 40
    assert samples.is_safe(visible(text).replace("\t", " "))


def change(value: Any) -> None:
    """Check that any change document is rejected or gives a bounded, safe pull request comment.

    A change document is the artifact that a preview of a pull request uploads.
    """
    text = json.dumps(value)
    if refusal(lambda: Document.read(text), ValueError):
        return
    document = Document.read(text)
    assert Document.read(document.write()) == document
    body = rendered(document)
    for each in (body, outdated(body)):
        assert len(each.encode()) <= LIMIT
        assert samples.is_safe(each.replace("\n", " "))
        assert sum(MARK.match(line) is not None for line in each.splitlines()) == 1
        assert not any(line.startswith("/") for line in each.splitlines())
    assert all(re.fullmatch("::(error|warning) [^\n]*", line) for line in of_github(document))
    told = [*object_lines(document)]
    told += [line for cluster in document.clusters for line in change_lines(cluster)]
    assert all(samples.is_safe(line) for line in told)
    of_gitlab(document)


def metrics(value: Any) -> None:
    """Check that any response of the custom metrics API is refused in one line, or gives values."""
    body = json.dumps(value).encode("utf-8", "surrogatepass")
    assert samples.is_safe(refusal(lambda: read_versions(body), MeasuringError))
    holding = tuple(
        PodDevices.of(usages.pod(f"team-a/{name}", "gpu-1")) for name in ("train", "idle")
    )
    found = usage("dev", (), set(), Listed(nodes=(usages.node("gpu-1"),), pods=holding))
    now = datetime(2026, 1, 4, 4, 4, 5, tzinfo=UTC)
    for version in LISTS:
        read = partial(read_values, version, "team-a", body)
        said = refusal(read, MeasuringError)
        assert samples.is_safe(said)
        assert len(said) < 1000
        by_pod = {} if said else {("team-a", name): each for name, each in read().items()}
        merged = merge(found, Measured(by_pod), now)
        assert all(samples.is_safe(line) for line in last_lines_of_who(merged))
        assert Usage.model_validate_json(merged.model_dump_json(by_alias=True)) == merged


def signed_evidence(value: Any) -> None:
    """Check that any statement and any envelope is refused in one safe line, or read unchanged."""
    text = json.dumps(value).encode()
    key = evidence_key(KEY)
    for read in (lambda: statement.read(text), lambda: verified(text, key)):
        said = refusal(read, statement.EvidenceError)
        assert samples.is_safe(said)
        assert len(said) < 2000
    if not refusal(lambda: statement.read(text), statement.EvidenceError):
        found = statement.read(text)
        assert statement.read(found.text()) == found


@dataclass(frozen=True)
class Target:
    """Parser of outside input that is fuzzed.

    Attributes:
        check: Function that raises an exception if the input causes a fault.
        typed: True if the fuzzer must keep the form that the API server or the test guarantees:
            strings stay strings, and objects keep their fields.
        fixed: Fields with a fixed set of values, which the fuzzer doesn't change.
    """

    check: Callable[[Any], None]
    typed: bool = False
    fixed: frozenset[str] = frozenset()


HOSTS: Mapping[str, Target] = {
    "access": Target(access, typed=True),
    "probe": Target(probed, typed=True),
    **{
        name: Target(channel(name), typed=True)
        for name in ("allowed", "boot-id", "lent", "member", "membership", "nothing", "xid")
    },
}
"""One target for each channel (parser of host output) in `gpu_cluster.ssh.answers`."""
TARGETS: Mapping[str, Target] = {
    **{f"host-{name}": target for name, target in HOSTS.items()},
    "errors": Target(errors, typed=True),
    "answer": Target(answer, typed=True),
    "secret": Target(secret, typed=True),
    "release": Target(release, typed=True),
    "manifest": Target(manifest, typed=True),
    "chart": Target(chart, typed=True),
    "document": Target(document, typed=True),
    "nodes": Target(nodes, typed=True),
    "cluster": Target(cluster, typed=True),
    "inventory": Target(inventory, typed=True),
    "pods": Target(pods, typed=True),
    "amount": Target(amount),
    "hidden": Target(hidden, typed=True, fixed=frozenset({"form", "name"})),
    "shown": Target(shown, typed=True),
    "change": Target(change),
    "evidence": Target(signed_evidence),
    "metrics": Target(metrics),
}
