"""Hostile inputs for all that is read from outside: no surprise, no instruction, no secret.

By structure, and by changing what the corpus keeps. `make fuzz` runs the latter a million times;
`FUZZ_INPUTS` says how many values are made by structure, `make test` takes some of each.
"""

from __future__ import annotations

import json
import os
import random
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tests.attacks import fuzz, targets

pytestmark = pytest.mark.filterwarnings("ignore::hypothesis.errors.HypothesisWarning")
STRUCTURED = 12
INPUTS = int(os.environ.get("FUZZ_INPUTS") or 0)
EACH = settings(
    max_examples=-(-INPUTS // STRUCTURED) or 60,
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
     "digest", "loaded", "simulated", "end"]
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


@EACH
@given(st.lists(st.one_of(TEXT, st.tuples(KEYS, TEXT).map("=".join)), max_size=30))
def test_any_answer_of_a_host_is_facts_and_its_findings_are_text(lines: list[str]) -> None:
    one()
    targets.answer(lines)


@EACH
@given(
    st.one_of(st.text(max_size=200), JSON.map(json.dumps)),
    st.booleans(),
    st.booleans(),
)
def test_any_secret_is_a_record_or_refused(text: str, packed: bool, cut: bool) -> None:
    one()
    targets.secret({"text": text, "packed": packed, "cut": cut})


@EACH
@given(st.one_of(TEXT, JSON.map(yaml.safe_dump), st.lists(JSON).map(yaml.safe_dump_all)))
def test_any_manifest_is_objects_or_refused(text: str) -> None:
    one()
    targets.manifest(text)


FIRST = (
    f"abcdef.0123456789abcdef sha256:{'0' * 64}\n",
    "[1.5] NVRM: Xid (PCI:0000:3b:00): ",
    "node",
)
YAML = st.text(alphabet="{}[]&*!:-? \n\ta", max_size=60)


@EACH
@given(st.one_of(TEXT, JSON.map(yaml.safe_dump), YAML))
def test_any_file_is_yaml_or_refused(text: str) -> None:
    one()
    targets.document(text)


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
    targets.nodes(nodes)


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
    targets.pods({"pods": pods, "log": log, "record": annotation})


NUMBER = st.from_regex(
    r"[+-]?[0-9]{0,30}(\.[0-9]{0,30})?([eE][+-]?[0-9]{0,9})?[a-zA-Z]{0,2}", fullmatch=True
)


@EACH
@given(st.one_of(TEXT, JSON, NUMBER))
def test_any_quantity_is_read_or_refused(value: Any) -> None:
    one()
    targets.amount(value)


SURROUNDINGS = st.text(alphabet=st.characters(exclude_characters='"\\\n'), max_size=30)


@EACH
@given(SURROUNDINGS, SURROUNDINGS, st.sampled_from(["token", "password", "privateKey", "auth"]),
       st.sampled_from(["json", "nested", "assigned", "alone", "lines"]))  # fmt: skip
def test_no_secret_outlives_the_redactor(before: str, after: str, name: str, form: str) -> None:
    one()
    targets.hidden({"before": before, "after": after, "name": name, "form": form})


@EACH
@given(st.one_of(TEXT, st.text(max_size=200)))
def test_any_text_is_shown_as_text(text: str) -> None:
    one()
    targets.shown(text)


@EACH
@given(
    st.sampled_from([name for name in targets.HOSTS if name != "probe"]),
    st.one_of(TEXT, JSON.map(yaml.safe_dump), st.tuples(st.sampled_from(FIRST), TEXT).map("".join)),
)
def test_any_answer_to_a_channel_is_a_value_or_refused(name: str, text: str) -> None:
    one()
    targets.HOSTS[name].check(text)


@EACH
@given(st.lists(st.one_of(TEXT, st.tuples(KEYS, TEXT).map("=".join)), max_size=30))
def test_any_answer_to_the_probe_is_facts_or_refused(lines: list[str]) -> None:
    one()
    targets.probed("\n".join([*lines, "end=ok", ""]))


@EACH
@given(st.one_of(TEXT, st.text(max_size=200)))
def test_any_errors_of_a_script_are_lines_to_show(text: str) -> None:
    one()
    targets.errors(text)


CHANGED = 100
"""Changed values of each target in `make test`."""


@pytest.mark.parametrize("name", targets.TARGETS)
def test_a_target_stands_its_corpus_and_changes_of_it(name: str) -> None:
    for value in fuzz.corpus()[name]:
        one()
        assert fuzz.judge(name, value) is None
    done, faults = fuzz.run(CHANGED, CHANGED, (name,))
    _counted["inputs"] += done.total()
    assert faults == []
    assert done == {name: CHANGED}


def test_a_fault_is_found_and_told_with_what_caused_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def check(text: str) -> None:
        assert "\x1b" not in text

    monkeypatch.setattr(fuzz, "TARGETS", {"shown": targets.Target(check, typed=True)})
    done, (first, *_) = fuzz.run(20_000, 1, ("shown",))
    again, (second, *_) = fuzz.run(20_000, 1, ("shown",))
    assert (first.value, done) == (second.value, again), "a number makes the same inputs again"
    assert "\x1b" in first.value
    assert "\x1b" not in str(first)
    assert "AssertionError" in first.trace


def test_what_an_api_server_guarantees_outlives_changes() -> None:
    chance = random.Random(7)  # noqa: S311  makes no secret
    changer = fuzz.Changer(chance, ("a", "\x1b"))
    kept = changed = 0
    for _ in range(100):
        for value in fuzz.corpus()["nodes"]:
            made = changer.value(value, targets.TARGETS["nodes"])
            kept += all(isinstance(node["metadata"]["name"], str) for node in made)
            changed += made != value
    assert kept == 100 * len(fuzz.corpus()["nodes"])
    assert changed > kept / 2


@pytest.mark.parametrize(("inputs", "workers"), [(1_000_000, 2), (7, 3), (0, 2)])
def test_no_input_is_lost_between_processes(inputs: int, workers: int) -> None:
    assert sum(fuzz.shares(inputs, workers)) == inputs


@pytest.mark.full
def test_a_million_changed_values_make_no_fault() -> None:
    done, faults = fuzz.many(fuzz.INPUTS, 1)
    _counted["inputs"] += done.total()
    print(fuzz.report(done, faults, 0))
    assert faults == []
    assert done.total() == fuzz.INPUTS
