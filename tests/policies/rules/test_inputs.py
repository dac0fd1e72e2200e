# ruff: noqa: E501  a table reads best one case a line
"""The rules for Helm values, commands on hosts and exemptions."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from typing import Any

import pytest

from gpu_rules.rules import UNKNOWN, Context, Severity
from tests.policies.rules.cases import CONTEXT, container, gpus, ids, paths, pod, release, workload
from tests.policies.rules.messages import judge

VARIABLE = {"name": "ACCEPT_NVIDIA_VISIBLE_DEVICES_ENVVAR_WHEN_UNPRIVILEGED", "value": "false"}
MOUNT = {"name": "ACCEPT_NVIDIA_VISIBLE_DEVICES_AS_VOLUME_MOUNTS", "value": "true"}
STRATEGY = {"name": "DEVICE_LIST_STRATEGY", "value": "volume-mounts"}
BY_VARIABLE = f"values.toolkit.env[{VARIABLE['name']}]"
BY_STRATEGY = f"values.devicePlugin.env[{STRATEGY['name']}]"


def pair(toolkit: Any, plugin: Any, cdi: Any = False, **fields: Any) -> dict[str, Any]:
    return {
        "cdi": {"enabled": cdi},
        "toolkit": {"env": toolkit, **fields},
        "devicePlugin": {"env": plugin},
    }


PAIRS: list[tuple[str, dict[str, Any], list[str]]] = [
    ("neither", pair([], []), []),
    ("both", pair([VARIABLE, MOUNT], [STRATEGY]), []),
    ("the toolkit alone", pair([VARIABLE, MOUNT], []), [BY_VARIABLE]),
    (
        "the toolkit alone, by name",
        pair([VARIABLE], [{**STRATEGY, "value": "envvar"}]),
        [BY_VARIABLE],
    ),
    ("the plugin alone", pair([], [STRATEGY]), [BY_STRATEGY]),
    ("the plugin and the other half", pair([VARIABLE], [STRATEGY]), [BY_STRATEGY]),
    (
        "mounts that are not looked at",
        pair([{**MOUNT, "value": "false"}], [STRATEGY]),
        [BY_STRATEGY],
    ),
    ("the variable accepted", pair([{**VARIABLE, "value": "true"}], []), []),
    ("by CDI", pair([VARIABLE], [], cdi=True), []),
    ("unknown CDI", pair([VARIABLE], [], cdi=UNKNOWN), []),
    ("unknown variables", pair(UNKNOWN, []), []),
    ("an unknown value", pair([{**VARIABLE, "value": UNKNOWN}], []), []),
    ("an unknown variable", pair([UNKNOWN, VARIABLE], []), []),
    ("unknown strategy", pair([VARIABLE], UNKNOWN), []),
    ("an unknown mount", pair([{**MOUNT, "value": UNKNOWN}], [STRATEGY]), []),
    ("the plugin alone, CDI unknown", pair([], [STRATEGY], cdi=UNKNOWN), []),
    ("no toolkit of the operator", pair([VARIABLE], [], enabled=False), []),
]


@pytest.mark.parametrize(("values", "wanted"), [r[1:] for r in PAIRS], ids=[r[0] for r in PAIRS])
def test_the_hardening_pair(values: Any, wanted: list[str]) -> None:
    assert paths("GPU038", release(values=values)) == wanted
    assert paths("GPU038", release("other", values=values)) == []


VERSIONS: list[tuple[str, dict[str, Any], bool]] = [
    ("exact", {"version": "v26.7.0"}, False),
    ("exact, without v", {"version": "26.7.0"}, False),
    ("a prerelease", {"version": "0.20.0-rc.1"}, False),
    ("none", {"version": None}, True),
    ("empty", {"version": ""}, True),
    ("a range", {"version": "^0.20.0"}, True),
    ("a part", {"version": "0.20"}, True),
    ("a long range", {"version": "^0.20.0 ".ljust(50, "|")}, True),
    ("any", {"version": "*"}, True),
    ("unknown", {"version": UNKNOWN}, False),
    ("an unknown repository", {"version": "", "repositoryOpts": UNKNOWN}, True),
    ("a folder", {"version": None, "chart": "./charts/gpu-operator", "repositoryOpts": None}, False),
    ("a folder from the root", {"version": None, "chart": "/charts/gpu-operator/", "repositoryOpts": None}, False),
    ("a folder at home", {"version": None, "chart": "~/gpu-operator", "repositoryOpts": None}, False),
    ("an archive", {"version": None, "chart": "gpu-operator-v26.7.0.tgz", "repositoryOpts": None}, False),
    ("a registry", {"version": None, "chart": "oci://example.com/charts/gpu-operator", "repositoryOpts": None}, True),
    ("a repository by name", {"version": None, "chart": "nvidia/gpu-operator", "repositoryOpts": None}, True),
    ("another chart", {"version": None, "chart": "prometheus"}, False),
    ("another kind", {"version": None, "kind": "HelmRelease"}, False),
    ("another group", {"version": None, "apiVersion": "helm.toolkit.fluxcd.io/v2"}, False),
    ("a chart component", {"version": None, "kind": "Chart", "apiVersion": "helm.sh/v4"}, True),
]  # fmt: skip


@pytest.mark.parametrize(
    ("fields", "refused"), [r[1:] for r in VERSIONS], ids=[r[0] for r in VERSIONS]
)
def test_chart_versions(fields: dict[str, Any], refused: bool) -> None:
    assert paths("GPU052", release(**fields)) == (["version"] if refused else [])


@pytest.mark.parametrize(
    ("version", "refused"),
    [
        ("595.91.07", False),
        ("5.1", False),
        ("v5", False),
        ("vv5", True),
        ("latest-".ljust(50, "x"), True),
        ("v1.20.0-ubuntu22.04", False),
        ("sha256:abc", False),
        ("latest", True),
        ("vlatest", True),
        ("", True),
        (7, True),
        (UNKNOWN, False),
        (None, False),
    ],
)
@pytest.mark.parametrize(
    "part", ["driver", "toolkit", "devicePlugin", "dcgmExporter", "gfd", "migManager"]
)
def test_versions_of_the_parts(part: str, version: Any, refused: bool) -> None:
    manifest = release(values={part: {"version": version}})
    assert paths("GPU053", manifest) == ([f"values.{part}.version"] if refused else [])


@pytest.mark.parametrize(
    ("version", "floor", "refused"),
    [
        ("v1.17.3-ubuntu20.04", "1.17.4", True),
        ("1.17.4", "1.17.4", False),
        ("v1.9.9", "1.17.4", True),
        ("v2.0.0", "1.17.4", False),
        ("v1.18.0", "1.17.4", False),
        ("v1.18.0", "1.20.0", True),
        ("v1.30.0", "1.30.1", True),
        ("v1.17.3-".ljust(50, "x"), "1.17.4", True),
        ("sha256:0", "1.17.4", False),
        (UNKNOWN, "1.17.4", False),
    ],
)
def test_the_toolkits_floor(version: Any, floor: str, refused: bool) -> None:
    context = replace(CONTEXT, toolkit_floor=floor)
    manifest = release(values={"toolkit": {"version": version}})
    assert paths("GPU054", manifest, context) == (["values.toolkit.version"] if refused else [])
    manifest["values"]["toolkit"]["enabled"] = False
    assert paths("GPU054", manifest, context) == []


@pytest.mark.promise("GPU054 refuses container toolkits below the newest security bulletin.")
@pytest.mark.parametrize(
    ("version", "refused"),
    [
        *((version, True) for version in ("1.17.4", "1.17.7", "v1.17.8", "1.18.2", "1.19.0")),
        *((version, False) for version in ("1.19.1", "v1.19.1-ubuntu22.04", "1.20.2")),
    ],
)
def test_the_toolkits_floor_is_the_bulletins(version: str, refused: bool) -> None:
    manifest = release(values={"toolkit": {"version": version}})
    assert paths("GPU054", manifest) == (["values.toolkit.version"] if refused else [])


@pytest.mark.promise("GPU072 names a driver below its branch's floor, also a chart's default.")
@pytest.mark.parametrize(
    ("chart", "driver", "found"),
    [
        ("v26.7.0", {"version": "580.126.20"}, ["values.driver.version"]),
        ("v26.7.0", {"version": "580.159.03-ubuntu22.04"}, []),
        ("v26.7.0", {"version": "595.71.04"}, ["values.driver.version"]),
        ("v26.7.0", {"version": "595.71.05"}, []),
        ("v26.7.0", {"version": "535.309.00"}, ["values.driver.version"]),
        ("v26.7.0", {"version": "535.309.01"}, []),
        ("v26.7.0", {"version": "570.211.01"}, ["values.driver.version"]),
        ("v26.7.0", {"version": "620.10.01"}, []),
        ("v26.7.0", {"version": UNKNOWN}, []),
        ("v26.3.2", {}, ["version"]),
        ("v26.3.2", {"enabled": False}, []),
        ("v26.7.0", {}, []),
    ],
)
def test_the_drivers_floor(chart: str, driver: dict[str, Any], found: list[str]) -> None:
    manifest = {**release(values={"driver": driver}), "version": chart}
    assert paths("GPU072", manifest) == found


def test_a_node_reports_its_driver() -> None:
    labels = {"nvidia.com/cuda.driver-version.full": "580.126.20"}
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n", "labels": labels}}
    assert len(paths("GPU072", node)) == 1
    labels["nvidia.com/cuda.driver-version.full"] = "580.159.03"
    assert paths("GPU072", node) == []


@pytest.mark.parametrize(
    ("chart", "values", "found"),
    [
        ("v26.3.1", {}, ["version"]),
        # Its exporter 4.8.2 is one that the bulletin calls both affected and fixed.
        ("v26.3.2", {}, ["version"]),
        ("v26.3.2", {"dcgmExporter": {"version": "4.6.0-4.8.3-d"}}, []),
        ("v26.7.0", {}, []),
        ("v26.7.0", {"devicePlugin": {"version": "v0.17.2"}}, ["values.devicePlugin.version"]),
        ("v26.7.0", {"devicePlugin": {"version": "v0.17.3"}}, []),
        (
            "v26.7.0",
            {"dcgmExporter": {"version": "4.5.2-4.8.1-d"}},
            ["values.dcgmExporter.version"],
        ),
        (
            "v26.7.0",
            {"dcgmExporter": {"version": "4.5.3-4.8.2-d"}},
            ["values.dcgmExporter.version"],
        ),
        ("v26.3.2", {"dcgm": {"enabled": True}}, ["version", "version"]),
        ("v26.7.0", {"dcgm": {"enabled": True}}, []),
    ],
)
def test_the_parts_floors(chart: str, values: dict[str, Any], found: list[str]) -> None:
    assert paths("GPU073", {**release(values=values), "version": chart}) == found


POLICY = "values.driver.upgradePolicy"


@pytest.mark.parametrize(
    ("policy", "wanted"),
    [
        ({}, []),
        ({"maxParallelUpgrades": 1}, []),
        ({"maxParallelUpgrades": 0}, [f"{POLICY}.maxParallelUpgrades"]),
        ({"maxParallelUpgrades": 0.0}, [f"{POLICY}.maxParallelUpgrades"]),
        ({"maxParallelUpgrades": 0, "autoUpgrade": False}, []),
        ({"maxParallelUpgrades": UNKNOWN}, []),
        ({"drain": {"enable": True, "timeoutSeconds": 0}}, [f"{POLICY}.drain.timeoutSeconds"]),
        ({"drain": {"enable": True, "timeoutSeconds": 300}}, []),
        ({"drain": {"enable": False, "timeoutSeconds": 0}}, []),
        ({"drain": {"enable": True}}, []),
        (UNKNOWN, []),
    ],
)
def test_driver_upgrades(policy: Any, wanted: list[str]) -> None:
    assert paths("GPU055", release(values={"driver": {"upgradePolicy": policy}})) == wanted


def test_the_plugins_file_in_values() -> None:
    weak = (
        "version: v1\nsharing: {timeSlicing: {resources: [{name: nvidia.com/gpu, replicas: 2}]}}\n"
    )
    key = "sharing.timeSlicing.failRequestsGreaterThanOne"
    own = release("nvidia-device-plugin", values={"config": {"map": {"default": weak}}})
    assert paths("GPU042", own) == [f"values.config.map[default].{key}"]
    operator = release(values={"devicePlugin": {"config": {"data": {"any": weak}}}})
    assert paths("GPU042", operator) == [f"values.devicePlugin.config.data[any].{key}"]


def command(kind: str = "Command", **fields: Any) -> dict[str, Any]:
    known = {"host": "a", "hostKey": "ssh-ed25519 AAAA"}
    given = {"connection": known, "create": "apply", "delete": "undo", **fields}
    return {"apiVersion": "command/remote", "kind": kind, **given}


def secret(value: Any) -> dict[str, Any]:
    return {"fn::secret": value}


KNOWN = {"host": "a", "hostKey": "k"}
KEY = "-----BEGIN OPENSSH PRIVATE KEY-----\nAAAA"
COMMANDS: list[tuple[str, dict[str, Any], list[tuple[str, str]]]] = [
    ("good", {}, []),
    ("no host key", {"connection": {"host": "a"}}, [("GPU056", "connection.hostKey")]),
    ("an empty host key", {"connection": {"host": "a", "hostKey": " "}}, [("GPU056", "connection.hostKey")]),
    ("an unknown host key", {"connection": {"host": "a", "hostKey": UNKNOWN}}, []),
    ("a secret host key", {"connection": {"host": "a", "hostKey": secret("k")}}, []),
    ("an unknown connection", {"connection": UNKNOWN}, []),
    ("no connection", {"connection": None}, []),
    ("a secret connection", {"connection": secret({"host": "a"})}, [("GPU056", "connection.hostKey")]),
    ("a connection that is unknown and secret", {"connection": secret(UNKNOWN)}, []),
    ("a proxy without key", {"connection": {**KNOWN, "proxy": {"host": "b"}}}, [("GPU056", "connection.proxy.hostKey")]),
    ("a proxy with key", {"connection": {**KNOWN, "proxy": KNOWN}}, []),
    ("an unknown proxy", {"connection": {**KNOWN, "proxy": UNKNOWN}}, []),
    ("a proxy that is unknown and secret", {"connection": {**KNOWN, "proxy": secret(UNKNOWN)}}, []),
    ("a key in clear", {"connection": {**KNOWN, "privateKey": "x"}}, [("GPU057", "connection.privateKey")]),
    ("a password in clear", {"connection": {**KNOWN, "password": "x"}}, [("GPU057", "connection.password")]),
    ("the key's password in clear", {"connection": {**KNOWN, "privateKeyPassword": "x"}}, [("GPU057", "connection.privateKeyPassword")]),
    ("a secret key", {"connection": {**KNOWN, "privateKey": secret("x")}}, []),
    ("an unknown key", {"connection": {**KNOWN, "privateKey": UNKNOWN}}, []),
    ("a key in a secret connection", {"connection": secret({**KNOWN, "privateKey": "x"})}, []),
    ("a proxy's key in clear", {"connection": {**KNOWN, "proxy": {**KNOWN, "privateKey": "x"}}}, [("GPU057", "connection.proxy.privateKey")]),
    ("a secret proxy", {"connection": {**KNOWN, "proxy": secret({**KNOWN, "privateKey": "x"})}}, []),
    ("a proxy in a secret connection", {"connection": secret({**KNOWN, "proxy": {**KNOWN, "privateKey": "x"}})}, []),
    ("a key on standard input", {"stdin": KEY}, [("GPU057", "stdin")]),
    ("a key in the command", {"create": f"echo {KEY}"}, [("GPU057", "create")]),
    ("a key in the environment", {"environment": {"K": KEY}}, [("GPU057", "environment[K]")]),
    ("a secret on standard input", {"stdin": secret("x")}, [("GPU058", "logging")]),
    ("and nothing logged", {"stdin": secret("x"), "logging": "none"}, []),
    ("and half logged", {"stdin": secret("x"), "logging": "stderr"}, [("GPU058", "logging")]),
    ("and unknown logging", {"stdin": secret("x"), "logging": UNKNOWN}, []),
    ("a secret command", {"create": secret("x")}, [("GPU058", "logging")]),
    ("a secret in the environment", {"environment": {"A": secret("x")}}, [("GPU058", "logging")]),
    ("a secret environment", {"environment": secret({"A": "x"})}, [("GPU058", "logging")]),
    ("an environment in clear", {"environment": {"A": "x"}}, []),
    ("no delete command", {"delete": None}, [("GPU059", "delete")]),
    ("an unknown undo", {"delete": UNKNOWN}, []),
    ("nothing done", {"create": None, "delete": None}, []),
]  # fmt: skip


@pytest.mark.parametrize(
    ("fields", "wanted"), [r[1:] for r in COMMANDS], ids=[r[0] for r in COMMANDS]
)
def test_commands_on_hosts(fields: dict[str, Any], wanted: list[tuple[str, str]]) -> None:
    assert [(v.rule.id, v.path) for v in judge(command(**fields), CONTEXT)] == wanted


@pytest.mark.parametrize(
    ("logging", "shown"),
    [
        (None, "the default, both streams"),
        ("stderr", "stderr"),
        ("stdout".ljust(21, "x"), "stdout".ljust(20, "x")),
    ],
)
def test_the_logging_beside_a_secret_is_named(logging: Any, shown: str) -> None:
    (violation,) = judge(command(stdin=secret("x"), logging=logging), CONTEXT)
    assert violation.found == f"{shown}, but stdin is a secret"


def test_a_copy_has_no_undo_and_no_log() -> None:
    copy = command("CopyToRemote", delete=None, stdin=secret("x"))
    assert judge(copy, CONTEXT) == []
    assert ids(command("CopyToRemote", connection={"host": "a"})) == ["GPU056"]


def test_a_command_of_another_kind_is_not_judged() -> None:
    local = {
        **command(delete=None, stdin=secret("x"), environment={"K": KEY}),
        "apiVersion": "command/local",
    }
    assert judge(local, CONTEXT) == []


TODAY = date(2026, 6, 15)
AT = "exempt.gpu-cluster/"


def exempted(key: str, value: Any, today: date | None = TODAY) -> list[tuple[str, str, str]]:
    manifest = pod(gpus("500m"))
    manifest["metadata"]["annotations"] = {key: value}
    violations = judge(manifest, Context(today=today))
    return [
        (violation.rule.id, str(violation.severity), violation.exemption)
        for violation in violations
        if violation.rule.id in ("GPU001", "GPU062")
    ]


BROKEN = ("GPU001", "mandatory", "")
WRONG = ("GPU062", "mandatory", "")


@pytest.mark.parametrize(
    ("key", "value", "wanted"),
    [
        (
            f"{AT}GPU001",
            "2026-12-31 because",
            [("GPU001", "advisory", "until 2026-12-31: because")],
        ),
        (
            f"{AT}GPU001",
            " 2026-12-31\n  a  long\treason ",
            [("GPU001", "advisory", "until 2026-12-31: a long reason")],
        ),
        (
            f"{AT}GPU001",
            "2026-06-15 its last day",
            [("GPU001", "advisory", "until 2026-06-15: its last day")],
        ),
        (f"{AT}GPU001", "2026-06-14 over", [BROKEN, WRONG]),
        (f"{AT}GPU001", "2026-02-30 no such day", [BROKEN, WRONG]),
        (f"{AT}GPU001", "2026-12-31", [BROKEN, WRONG]),
        (f"{AT}GPU001", "because", [BROKEN, WRONG]),
        (f"{AT}GPU001", "", [BROKEN, WRONG]),
        (f"{AT}GPU001", 7, [BROKEN, WRONG]),
        (f"{AT}GPU001", None, [BROKEN, WRONG]),
        (f"{AT}GPU001", UNKNOWN, [BROKEN]),
        (f"{AT}GPU002", "2026-12-31 because", [BROKEN]),
        (f"{AT}GPU999", "2026-12-31 because", [BROKEN, WRONG]),
        (f"{AT}all", "2026-12-31 because", [BROKEN, WRONG]),
        (f"{AT}GPU062", "2026-12-31 because", [BROKEN, WRONG]),
        ("exempt.example.com/GPU001", "2026-12-31 because", [BROKEN]),
    ],
)
def test_exemptions(key: str, value: Any, wanted: list[Any]) -> None:
    assert exempted(key, value) == wanted


def test_without_a_day_given_today_counts() -> None:
    assert exempted(f"{AT}GPU001", "2030-12-31 because", None)[0][1] == "advisory"
    assert exempted(f"{AT}GPU001", "2026-01-01 because", None) == [BROKEN, WRONG]
    assert exempted(f"{AT}GPU001", "9999-12-31 because", None) == [BROKEN, WRONG]


def test_an_exemption_on_the_template_counts_and_the_objects_own_goes_before() -> None:
    manifest = workload("Deployment", gpus("500m"))
    metadata = {"annotations": {f"{AT}GPU001": "2026-12-31 because"}}
    manifest["spec"]["template"]["metadata"] = metadata
    rules = {v.rule.id: v for v in judge(manifest, Context(today=TODAY))}
    assert rules["GPU001"].severity is Severity.ADVISORY
    manifest["metadata"]["annotations"] = {f"{AT}GPU001": "2026-01-01 over"}
    rules = {v.rule.id: v for v in judge(manifest, Context(today=TODAY))}
    assert rules["GPU001"].severity is Severity.MANDATORY
    assert rules["GPU062"].path == f"metadata.annotations[{AT}GPU001]"


def test_a_long_reason_is_cut() -> None:
    ((_, _, exemption),) = exempted(f"{AT}GPU001", "2026-12-31 " + "x" * 500)
    assert exemption == "until 2026-12-31: " + "x" * 120


def test_a_rule_that_is_off_stays_off_when_exempted() -> None:
    manifest = pod(container())
    manifest["metadata"]["annotations"] = {f"{AT}GPU001": "2026-01-01 over"}
    context = Context(today=TODAY, severities={"GPU062": Severity.OFF})
    assert judge(manifest, context) == []
