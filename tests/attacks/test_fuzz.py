"""Hostile inputs for all that is read from outside: no surprise, no instruction, no secret.

``FUZZ_INPUTS`` (`make fuzz`) says how many in all; `make test` takes some of each.
"""

from __future__ import annotations

import base64
import gzip
import json
import os
from collections.abc import Callable
from typing import Any

import pytest
import yaml
from command_provider.output import Redactor, visible
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from components.api import ClusterError
from components.grammar import IllFormed
from components.hosts.facts import HostFacts
from components.hosts.inspect import LONGEST, parse
from components.inspection.cluster import scheduling_drift
from components.inspection.look import judged
from components.nodes.drain import to_evict
from components.nodes.inspect import count_devices, gpus, pool_members
from components.platforms.helm_record import decode_release, expected
from components.validation import judge as judging
from components.validation import record, use, waiting
from components.validation.offered import shortfall
from config.printable import printable, printable_lines
from config.yaml_file import YamlError
from config.yaml_file import parse as parse_yaml
from policies.rules import quantity
from tests.attacks.test_findings import cluster
from tests.attacks.test_terminal import is_safe

pytestmark = pytest.mark.filterwarnings("ignore::hypothesis.errors.HypothesisWarning")
TARGETS = 9
INPUTS = int(os.environ.get("FUZZ_INPUTS") or 0)
EACH = settings(
    max_examples=-(-INPUTS // TARGETS) or 60,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    database=None,
    phases=[Phase.explicit, Phase.generate],
)
_counted = {"inputs": 0}

#: What parsers, terminals, shells and workflows stumble over, beside any text.
LONG = st.tuples(st.sampled_from("9x&"), st.sampled_from([5_000])).map(
    lambda pair: pair[0] * pair[1]
)
NASTY = LONG | st.sampled_from(
    ["", "\x00", "\x1b[2J", "\u202e", "\u2028", "²", "٣", "-1", "1e999", "Infinity",
     "NaN", "::error::x", "##[x]", "$(id)", "`id`", "'; id #", "\n", "\r", "..", "../..", "%2f",
     "{{x}}", "\ud800", "&a [*a]", "!!python/object:os.system", "=", "\\"]
)  # fmt: skip
TEXT = st.one_of(NASTY, st.text(max_size=40), st.tuples(st.text(max_size=5), NASTY).map("".join))
KEYS = st.sampled_from(
    ["os", "os_version", "arch", "kernel", "nvidia_devices", "nvswitches", "driver", "containerd",
     "toolkit", "docker", "crio", "headers", "secure_boot", "clock", "swap", "cgroup", "applied",
     "disk_free_mib", "package_lock", "boot_id", "reboot", "reboot_required", "now", "drift",
     "digest", "loaded", "simulated", "nvidia_runtime", "end"]
)  # fmt: skip
JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), TEXT),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(TEXT, inner, max_size=4)),
    max_leaves=12,
)


@pytest.fixture(autouse=True)
def count(record_property: Any) -> Any:
    before = _counted["inputs"]
    yield
    record_property("inputs", _counted["inputs"] - before)


def one() -> None:
    _counted["inputs"] += 1


def refusal(read: Callable[[], Any], kind: type[Exception]) -> str:
    """Why something isn't taken, in words; empty where it is. Another exception is a fault."""
    try:
        read()
    except kind as error:
        return str(error)
    return ""


@EACH
@given(st.lists(st.one_of(TEXT, st.tuples(KEYS, TEXT).map("=".join)), max_size=30))
def test_any_answer_of_a_host_is_facts_and_its_findings_are_text(lines: list[str]) -> None:
    one()
    facts = parse(lines, 0.0)
    for value in vars(facts).values():
        for text in (value,) if isinstance(value, str) else ():
            assert text.isprintable()
            assert len(text) <= 10 * LONGEST + 40  # each character may be an escape
    seen = {
        "cluster": {
            "problems": [], "cordoned": [], "scheduling": {}, "validation": {}, "presence": {}
        },
        "hosts": {"problems": [], "facts": {"gpu-1": vars(facts)}},
    }  # fmt: skip
    result = judged(cluster(), json.loads(json.dumps(seen)), "")
    assert isinstance(result.hosts["gpu-1"], HostFacts)
    assert is_safe("\n".join((*result.problems, *result.warnings)))
    drift = result.drift
    for text in (*drift.prepare.values(), *drift.runtime.values(), *drift.reboot.values()):
        assert text.isprintable()


@EACH
@given(
    st.one_of(st.binary(max_size=200), JSON.map(lambda v: json.dumps(v).encode())),
    st.booleans(),
    st.booleans(),
)
def test_any_secret_is_a_record_or_refused(content: bytes, packed: bool, cut: bool) -> None:
    one()
    content = gzip.compress(content) if packed else content
    content = content[:-3] if cut else content
    data = base64.b64encode(base64.b64encode(content)).decode()
    secret = {"metadata": {"name": "x", "namespace": "y"}, "data": {"release": data}}

    def read() -> None:
        manifest = decode_release(secret).get("manifest")
        if isinstance(manifest, str):
            expected(manifest)

    assert refusal(read, IllFormed).isprintable()


@EACH
@given(st.one_of(TEXT, JSON.map(yaml.safe_dump), st.lists(JSON).map(yaml.safe_dump_all)))
def test_any_manifest_is_objects_or_refused(text: str) -> None:
    one()

    def read() -> None:
        for item in expected(text):
            assert str(item).isprintable()
            assert "/" not in item.name

    assert refusal(read, IllFormed).isprintable()


YAML = st.text(alphabet="{}[]&*!:-? \n\ta", max_size=60)


@EACH
@given(st.one_of(TEXT, JSON.map(yaml.safe_dump), YAML))
def test_any_file_is_yaml_or_refused(text: str) -> None:
    one()
    assert isinstance(refusal(lambda: parse_yaml(text), YamlError), str)


PAIRS = st.dictionaries(TEXT, TEXT, max_size=3)
TAINTS = st.lists(
    st.fixed_dictionaries({"key": TEXT, "effect": TEXT}, optional={"value": TEXT}), max_size=3
)
NODES = st.fixed_dictionaries(
    {
        "metadata": st.fixed_dictionaries(
            {"name": st.one_of(TEXT, st.just("gpu-1"))},
            optional={"labels": PAIRS, "annotations": PAIRS},
        ),
        "spec": st.fixed_dictionaries({}, optional={"taints": TAINTS}),
        "status": st.fixed_dictionaries(
            {},
            optional={
                "allocatable": st.dictionaries(st.just("nvidia.com/gpu"), TEXT),
                "capacity": st.dictionaries(st.just("nvidia.com/gpu"), TEXT),
            },
        ),
    }
)


@EACH
@given(st.lists(NODES, max_size=3))
def test_any_node_is_judged_or_refused_by_name(nodes: list[dict[str, Any]]) -> None:
    one()
    document = {
        "pool": "a",
        "nodes": None,
        "selector": {"": ""},
        "count": len(nodes),
        "manager": "m",
        "labels": {"a": "b"},
        "taints": [{"key": "k", "value": "v", "effect": "NoSchedule"}],
        "resources": {"nvidia.com/gpu": 8},
    }
    for node in nodes:
        assert 0 <= gpus(node) < 10**6
        assert isinstance(shortfall(node, 8, {"nvidia.com/gpu": 8}), str)
    assert len(count_devices(nodes, [], "gpu.nvidia.com")) == len(nodes)
    for by in ({"selector": {}}, {"nodes": ["gpu-1"]}, {"selector": {"": ""}}):
        asked = document | by
        try:
            members = pool_members(nodes, asked)
        except ClusterError as error:
            said, members = str(error), []
            assert is_safe(printable_lines(said))
        drift = scheduling_drift(members, asked)
        assert drift is None or printable(drift).isprintable()


STATE = st.fixed_dictionaries(
    {},
    optional={
        "terminated": st.fixed_dictionaries({"exitCode": st.integers(0, 255)}),
        "waiting": st.fixed_dictionaries({"reason": TEXT}, optional={"message": TEXT}),
    },
)
STATUSES = st.lists(st.fixed_dictionaries({"name": TEXT, "state": STATE}), max_size=2)
LIMITS = st.fixed_dictionaries(
    {"limits": st.dictionaries(st.just("nvidia.com/gpu"), TEXT, max_size=1)}
)
CONTAINERS = st.lists(
    st.fixed_dictionaries({"name": TEXT}, optional={"resources": LIMITS}), max_size=2
)
PODS = st.fixed_dictionaries(
    {
        "metadata": st.fixed_dictionaries(
            {"name": TEXT, "namespace": TEXT},
            optional={
                "annotations": PAIRS,
                "ownerReferences": st.lists(
                    st.fixed_dictionaries({"kind": TEXT}, optional={"controller": st.booleans()}),
                    max_size=2,
                ),
            },
        ),
        "spec": st.fixed_dictionaries({"containers": CONTAINERS}, optional={"nodeName": TEXT}),
        "status": st.fixed_dictionaries(
            {"phase": st.one_of(TEXT, st.sampled_from(["Succeeded", "Failed"]))},
            optional={"reason": TEXT, "message": TEXT, "containerStatuses": STATUSES},
        ),
    }
)
LOG = st.lists(
    st.one_of(TEXT, st.sampled_from(["Test PASSED", "GPU 0: NVIDIA H100 (UUID: GPU-1)"]))
).map("\n".join)


@EACH
@given(st.lists(PODS, max_size=3), LOG, st.one_of(TEXT, JSON.map(json.dumps)))
def test_any_pod_log_and_record_is_judged(
    pods: list[dict[str, Any]], log: str, annotation: str
) -> None:
    one()
    going, lost = to_evict(pods)
    assert len(lost) <= len(going) <= len(pods)
    for pod in pods:
        assert judging.refusal(pod).isprintable()
        assert waiting.reason(pod).isprintable()
        assert all(amount >= 0 for amount in use.asked(pod, ["nvidia.com/gpu"]).values())
        for status in pod["status"].get("containerStatuses", []):
            assert judging.judge(status, log).problem.isprintable()
    node = {"metadata": {"name": "gpu-1", "annotations": {record.RECORD: annotation}}}
    result = record.decode(node)
    assert result is None or record.decode({"metadata": {"annotations": {
        record.RECORD: record.encode(result)}}}) == result  # fmt: skip


NUMBER = st.from_regex(
    r"[+-]?[0-9]{0,30}(\.[0-9]{0,30})?([eE][+-]?[0-9]{0,9})?[a-zA-Z]{0,2}", fullmatch=True
)


@EACH
@given(st.one_of(TEXT, JSON, NUMBER))
def test_any_quantity_is_read_or_refused(value: Any) -> None:
    one()
    said = refusal(lambda: quantity.parse(value), quantity.QuantityError)
    assert len(said) < 10_000


CANARY = "canary5f1d0c2bb7"
SURROUNDINGS = st.text(alphabet=st.characters(exclude_characters='"\\\n'), max_size=30)


@EACH
@given(SURROUNDINGS, SURROUNDINGS, st.sampled_from(["token", "password", "privateKey", "auth"]),
       st.sampled_from(["json", "nested", "assigned", "alone", "lines"]))  # fmt: skip
def test_no_secret_outlives_the_redactor(before: str, after: str, name: str, form: str) -> None:
    one()
    plain = json.dumps({"a": before, name: CANARY, "z": after})
    secret = {
        "json": plain,
        "nested": json.dumps({"inner": plain}),
        "assigned": f"export {name}='{CANARY}'",
        "alone": CANARY,
        "lines": f"x{after}\n{CANARY}\n",
    }[form]
    redact = Redactor([secret])
    for text in (secret, f"{before}{CANARY}{after}", f"{before}\n{CANARY}", plain):
        assert CANARY not in redact(text)


@EACH
@given(st.one_of(TEXT, st.text(max_size=200)))
def test_any_text_is_shown_as_text(text: str) -> None:
    one()
    for shown in (printable(text), *printable_lines(text).split("\n")):
        assert is_safe(shown)
    assert printable(printable(text[:200])) == printable(text[:200])
    assert len(printable(text, 50)) < 50 * 10 + 40
    assert is_safe(visible(text).replace("\t", ""))
