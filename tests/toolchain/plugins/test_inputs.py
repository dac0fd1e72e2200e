"""Tests of the command plugin without running commands: checks, defaults, diffs and previews."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from command_provider import difference, local_command, remote_command, server
from command_provider.output import Output, Redactor, visible
from hypothesis import given
from hypothesis import strategies as st
from pulumi.runtime import rpc
from pulumi.runtime.proto import provider_pb2

from gpu_cluster import property_values as values
from tests.toolchain.plugins.rig import Failed, Plugin

LOCAL = "command:local:Command"
REMOTE = "command:remote:Command"
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGJbXz00IGs6fdyuCTPWVH/8r3jG/zWaKvUbbiDvfbgC comment"
CONNECTION = {"host": "192.0.2.1", "hostKey": KEY}


def test_defaults_are_filled_in_and_the_connection_is_secret(shared_plugin: Plugin) -> None:
    given_inputs = {"connection": CONNECTION | {"proxy": CONNECTION}, "create": "true", "x": 1}
    inputs, failures = shared_plugin.check(REMOTE, **given_inputs)
    assert failures == {}
    assert set(inputs) == {"connection", "create"}
    assert values.is_secret(inputs["connection"])
    defaults = {"port": 22, "user": "root", "dialErrorLimit": 10, "perDialTimeout": 15}
    endpoint = CONNECTION | defaults
    assert values.reveal(inputs["connection"]) == endpoint | {"proxy": endpoint}


@pytest.mark.parametrize(
    ("token", "inputs", "path", "reason"),
    [
        (REMOTE, {}, "connection", "required"),
        (REMOTE, {"connection": {"hostKey": KEY}}, "connection.host", "required"),
        (
            REMOTE,
            {"connection": {"host": "192.0.2.1", "port": 2222}},
            "connection.hostKey",
            "ssh-keyscan -t ed25519 -p 2222 192.0.2.1",
        ),
        (
            REMOTE,
            {"connection": CONNECTION | {"proxy": {"host": "192.0.2.2"}}},
            "connection.proxy.hostKey",
            "ssh-keyscan -t ed25519 -p 22 192.0.2.2",
        ),
        (
            REMOTE,
            {"connection": CONNECTION | {"hostKey": "SHA256:abc"}},
            "connection.hostKey",
            "not a public key line",
        ),
        (
            REMOTE,
            {"connection": CONNECTION | {"port": "22"}},
            "connection.port",
            "wanted number, found str",
        ),
        (LOCAL, {"assetPaths": ["*"]}, "assetPaths", "served by the official plugin only"),
        (LOCAL, {"archivePaths": ["*"]}, "archivePaths", "served by the official plugin only"),
        (
            REMOTE,
            {"connection": CONNECTION | {"agentSocketPath": "/run/agent"}},
            "connection.agentSocketPath",
            "served by the official plugin only",
        ),
        *(
            (
                REMOTE,
                {"connection": CONNECTION | {name: "secret"}},
                f"connection.{name}",
                "served by the official plugin only",
            )
            for name in ("password", "privateKeyPassword")
        ),
        (LOCAL, {"logging": "all"}, "logging", "wanted one of stdout, stderr"),
        (LOCAL, {"environment": {"A": 1}}, "environment", "wanted map of strings"),
        (LOCAL, {"interpreter": "sh"}, "interpreter", "wanted list of strings, found str"),
    ],
)
def test_bad_inputs_are_named_with_what_was_wanted(
    shared_plugin: Plugin, token: str, inputs: dict[str, Any], path: str, reason: str
) -> None:
    _, failures = shared_plugin.check(token, **inputs)
    assert reason in failures[path]


def test_unknown_values_pass_the_check(shared_plugin: Plugin) -> None:
    unknown = dict.fromkeys(("host", "port", "hostKey", "privateKey"), values.UNKNOWN)
    for connection in (unknown, values.UNKNOWN):
        _, failures = shared_plugin.check(
            REMOTE, connection=connection, environment=values.UNKNOWN, stdin=values.UNKNOWN
        )
        assert failures == {}


@pytest.mark.parametrize("token", ["command:remote:Other", "command:remote:CopyToRemote"])
def test_what_is_no_command_is_refused_by_name(shared_plugin: Plugin, token: str) -> None:
    with pytest.raises(Failed, match=f"{token}: not served by this plugin"):
        shared_plugin.check(token)


def test_a_preview_runs_nothing_and_outputs_are_unknown(shared_plugin: Plugin) -> None:
    state = shared_plugin.create(LOCAL, preview=True, create="exit 1")
    assert state["create"] == "exit 1"
    assert {k for k, v in state.items() if v == values.UNKNOWN} == {"stdout", "stderr"}


def test_triggers_replace_and_everything_else_updates(shared_plugin: Plugin) -> None:
    old = {"triggers": [1, 2], "create": "a", "environment": {"A": "1", "B.C": "2"}, "stdin": "x"}
    new = {"triggers": [1, 3, 4], "create": "b", "environment": {"A": "1", "B.C": "3"}, "dir": "/"}
    assert shared_plugin.diff(LOCAL, old, new) == {
        "triggers[1]": "UPDATE_REPLACE",
        "triggers[2]": "ADD_REPLACE",
        "create": "UPDATE",
        'environment["B.C"]': "UPDATE",
        "stdin": "DELETE",
        "dir": "ADD",
    }
    assert shared_plugin.diff(LOCAL, old, old) == {}


def test_a_refresh_changes_nothing(shared_plugin: Plugin) -> None:
    state = values.encode({"create": "a", "stdout": "b"})
    request = provider_pb2.ReadRequest(urn=Plugin.urn(LOCAL), id="it", properties=state)
    answer = shared_plugin.stub.Read(request)
    assert (answer.id, answer.properties) == ("it", state)


_LEAVES = st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=3)
_VALUES = st.recursive(
    _LEAVES,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(max_size=3), inner, max_size=3)
        | inner.map(values.secret)
    ),
    max_leaves=8,
)
_PROPERTIES = st.dictionaries(st.text(max_size=3), _VALUES, max_size=3)


@given(_PROPERTIES, _PROPERTIES)
def test_nothing_differs_from_itself_and_a_difference_is_seen_from_both_sides(
    one: dict[str, Any], other: dict[str, Any]
) -> None:
    assert difference.compare(one, one) == {}
    there, back = difference.compare(one, other), difference.compare(other, one)
    assert set(there) == set(back)


def test_becoming_secret_is_a_change() -> None:
    assert difference.compare({"a": "x"}, {"a": values.secret("x")}) == {"a": "UPDATE"}


@given(st.binary(max_size=300), st.lists(st.integers(0, 300), max_size=5))
def test_shown_lines_are_the_output_s_lines_however_it_is_cut(data: bytes, cuts: list[int]) -> None:
    shown: list[str] = []
    output = Output(None, shown.append, Redactor([]))
    places = [0, *sorted(cuts), len(data)]
    for begin, end in itertools.pairwise(places):
        output.feed("stdout", data[begin:end])
    output.close()
    lines = data.split(b"\n")
    lines = lines[:-1] if lines[-1] == b"" else lines
    assert shown == [visible(line.decode("utf-8", "replace").rstrip("\r")) for line in lines]


def test_the_wire_s_constants_are_the_sdk_s() -> None:
    assert values.UNKNOWN == rpc.UNKNOWN
    assert rpc._special_sig_key == values.SIGNATURE
    assert rpc._special_secret_sig == values.SECRET


def test_commands_end_before_the_engine_kills_the_plugin() -> None:
    for grace in (local_command.GRACE, remote_command.GRACE):
        assert grace < server.SHUTDOWN_LIMIT < server.ENGINE_LIMIT


def test_each_line_of_a_secret_is_blanked() -> None:
    redact = Redactor(["first line\nsecond line\nab"])
    assert redact("a second line, ab") == "a [secret], ab"
