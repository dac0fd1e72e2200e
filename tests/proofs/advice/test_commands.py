"""Cures of commands are followed: with the option, file or variable that they name they run."""

from __future__ import annotations

import asyncio
import os
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import asyncssh
import httpx
import pulumi
import pytest
from pulumi import automation
from pulumi.errors import InputPropertiesError
from pulumi.output import Unknown

from gpu_cluster.change import file as change_file
from gpu_cluster.change.document import ClusterChange, Document, Outcome
from gpu_cluster.commands import (
    contexts,
    embedded_cluster,
    host_keys,
    init,
    lab,
    leave,
    lock,
    new,
    tools,
    upgrade_check,
    validate,
    why,
)
from gpu_cluster.commands import (
    stack as stacks,
)
from gpu_cluster.commands.adoption.draft import Wanted
from gpu_cluster.commands.adoption.stack_text import settings_of
from gpu_cluster.commands.backend import heal
from gpu_cluster.commands.evidence import __main__ as evidence
from gpu_cluster.commands.files import new_file
from gpu_cluster.commands.placeholders import blinded
from gpu_cluster.commands.preview_state import preview_environment
from gpu_cluster.commands.preview_state import pulumi as run_pulumi
from gpu_cluster.commands.report import __main__ as report
from gpu_cluster.commands.stack import Stack
from gpu_cluster.commands.stack_edit import Edit, edited
from gpu_cluster.commands.why_node import explain_node
from gpu_cluster.desired.resolve import resolve
from gpu_cluster.loading.loader import load
from gpu_cluster.machine.flock import locked
from gpu_cluster.machine.tool import ToolchainError
from gpu_cluster.package.packaged import COMPONENTS
from gpu_cluster.package.provider import PackageProvider, _settings_of_inputs
from gpu_cluster.property_values import SECRET, SIGNATURE
from gpu_cluster_lab import simulator
from gpu_rules.faults import FaultError
from gpu_rules.version import VERSION
from tests.components.change.world import World, base, desired_of
from tests.fixtures.api import client
from tests.fixtures.documents import KEYS, stack_document
from tests.fixtures.running_clusters import cluster as observed
from tests.fixtures.running_clusters import machine
from tests.proofs.advice.rows import Record, note

Json = dict[str, Any]
UNKNOWN: Any = Unknown()  # type: ignore[no-untyped-call]
COMMANDS = "components/gpu_cluster/commands"
STACK = """\
config:
  gpu-cluster:cluster:
    version: v1
    kubernetes: {context: CONTEXT}
    platform: device-plugin
    pools: [{name: a100, nodes: ["gpu-[1-4]"], gpusPerNode: 8}]
"""
HOST = "    hosts: [{name: gpu-1, address: 192.0.2.1}]\n"
NAMED = "    hosts: [{<<: {name: gpu-1}, address: 192.0.2.1}]\n"


class Row(NamedTuple):
    """A refused call, words of its cure, and the call after it."""

    source: str
    cure: str
    refused: Callable[[], object]
    mended: Callable[[], object]


def _stack(context: str = "prod") -> Stack:
    """Return the stack `lab` of the working directory, with a file."""
    Path("Pulumi.lab.yaml").write_text(STACK.replace("CONTEXT", context))
    return Stack("lab")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make an empty folder the project's folder, the working directory and the home."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(stacks, "ROOT", tmp_path)
    for name in ("EMBEDDED", "JSON", "PULUMI_BACKEND_URL"):
        monkeypatch.delenv(name, raising=False)
    for name in ("HOME", "GPU_CLUSTER_CACHE"):
        monkeypatch.setenv(name, str(tmp_path))
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    monkeypatch.setenv("STACK", "lab")
    return tmp_path


@contextmanager
def _variables(**values: str) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for name, value in values.items():
            patch.setenv(name, value)
        yield


def _with(call: Callable[[], object], **values: str) -> Callable[[], object]:
    """Return a call that runs with environment variables."""

    def run() -> object:
        with _variables(**values):
            return call()

    return run


def _answered(text: str) -> Callable[[], object]:
    """Return the consent of a person who types a text at a terminal."""

    def run() -> None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(contexts, "asks", lambda: True)
            patch.setattr("builtins.input", lambda _: text)
            contexts.require_consent(_stack(), 24)

    return run


def _new(**options: Any) -> Callable[[], object]:
    def run() -> None:
        Path("hosts.ini").write_text("[kube_node]\ngpu-1 ansible_host=192.0.2.1\n")
        if options["stack"] == "old":
            Path("Pulumi.old.yaml").write_text(STACK)
        new.run(new.Options(**options), {})

    return run


def _chosen(text: str, *names: str) -> Callable[[], object]:
    return lambda: host_keys.chosen(settings_of(STACK + text), frozenset(names))


def _nodes(text: str, *maintenance: str) -> Callable[[], object]:
    pools = load(stack_document()).pools
    return lambda: validate.chosen(text, pools, frozenset(maintenance))


def _of_context(*nodes: str) -> Callable[[], object]:
    cluster = observed(machine("gpu-1"), machine("gpu-2"))
    return lambda: new.chosen_nodes(cluster, Wanted(context="prod", nodes=nodes))


def _made(file: str) -> Callable[[], object]:
    def run() -> object:
        Path(file).parent.mkdir(exist_ok=True)
        return new_file("--file", file)

    return run


def _report(**options: str) -> Callable[[], object]:
    def run() -> None:
        _stack()
        document = Document(stack="lab", outcome=Outcome.UNCHANGED)
        Path("change.json").write_text(document.write())
        with pytest.MonkeyPatch.context() as patch:
            # The state needs the engine.
            patch.setattr(report, "_figures", lambda _: ((), []))
            report.main(**options)

    return run


def _state(mark: bool) -> Callable[[], object]:
    value = {SIGNATURE: SECRET, "plaintext": '"s3cr3t"'} if mark else "s3cr3t"
    urn = "urn:pulumi:s::p::command:local:Command::c"
    resource = {"urn": urn, "type": "command:local:Command", "inputs": {"a": value}}
    state = {"version": 3, "deployment": {"resources": [resource]}}
    return lambda: blinded(state, {}, {"gpu-cluster:licenseToken": "s3cr3t"})


def _pulumi(state: str) -> Callable[[], object]:
    """Return a run of a program `pulumi`, which needs a file that its message names."""

    def run() -> object:
        program = Path("pulumi")
        program.write_text(
            "#!/bin/sh\n[ -f state.json ] || { echo 'error: no state.json' >&2; exit 1; }\n"
        )
        program.chmod(0o755)
        if state:
            Path(state).write_text("{}")
        with _variables(PATH=f"{Path.cwd()}{os.pathsep}{os.defpath}"):
            return run_pulumi(Path.cwd(), dict(os.environ), "stack", "export")

    return run


def _preview(**values: str) -> Callable[[], object]:
    return lambda: preview_environment({"PULUMI_BACKEND_URL": "s3://state", **values})


def _package(**inputs: Any) -> Callable[[], object]:
    pools = [{"name": "a100", "nodes": ["gpu-1"], "gpusPerNode": 8.0}]
    given = {"kubernetes": {"context": "test"}, "pools": pools, "platform": "device-plugin"}
    packaged = COMPONENTS["gpucluster:index:GpuCluster"]
    return lambda: _settings_of_inputs(packaged, {**given, **inputs})


def _component(token: str) -> Callable[[], object]:
    def run() -> object:
        if token in COMPONENTS:
            return COMPONENTS[token]
        return PackageProvider().construct("site", token, {})

    return run


def _change(target: str) -> Callable[[], object]:
    document = Document(stack="lab", outcome=Outcome.UNCHANGED, clusters=(ClusterChange(name="c"),))
    write = _with(lambda: change_file.write(document, "c"), GPU_CLUSTER_CHANGE=target)
    return write


def _folder(name: str, call: Callable[[], object]) -> Callable[[], object]:
    def run() -> object:
        Path(name).mkdir()
        return call()

    return run


def _since(version: str) -> Callable[[], object]:
    backend = {"PULUMI_BACKEND_URL": "s3://bucket"}
    return _with(lambda: upgrade_check.run(_stack("gpu-cluster-none"), version, {}), **backend)


def _healed(content: str | None) -> Callable[[], object]:
    def run() -> object:
        state = Path("state/.pulumi/stacks/gpu-cluster/lab.json")
        state.parent.mkdir(parents=True, exist_ok=True)
        if content is None:
            state.rename("lab.json.cut")
        else:
            state.write_text(content)
        return list(heal(Path("state/.pulumi"), Path("home"), "lab"))

    return run


def _constraints(version: str) -> Callable[[], object]:
    def run() -> object:
        file = Path("constraints.txt")
        file.write_text(f"gpu-cluster=={version} \\\n    --hash=sha256:{'0' * 64}\n")
        return init.requirements(file)

    return run


def _absent(name: str) -> Callable[[], object]:
    def run() -> None:
        Path("site").mkdir(exist_ok=True)
        Path("site/README.md").touch()
        Path(name).mkdir(exist_ok=True)
        init.require_absent(Path(name), ["README.md"])

    return run


DEFAULT_BACKEND = {"PREVIEW_BACKEND_URL": "s3://state"}
OWN_BACKEND = {"PREVIEW_BACKEND_URL": "s3://previews"}
FLOW = (
    "config: {gpu-cluster:cluster: &c {version: v1, devicePlugin: &p {version: 0.19.2}, a: *p}}\n"
)
PLUGIN = Edit(("devicePlugin", "version"), "0.20.1")
ROWS = (
    Row(f"{COMMANDS}/backend.py", "restore the file from a backup of your own",
        _healed('{"version": 3'), _healed('{"version": 3}')),
    Row(f"{COMMANDS}/backend.py", "without one, move it away",
        _healed('{"version": 3'), _healed(None)),
    Row(f"{COMMANDS}/contexts.py", "`gpu-cluster down --stack lab --embedded`",
        lambda: contexts.require_embedded(_stack()),
        _with(lambda: contexts.require_embedded(_stack()), EMBEDDED="1")),
    Row(f"{COMMANDS}/contexts.py", "run again and type this name",
        _answered("yes"), _answered("lab")),
    Row(f"{COMMANDS}/contexts.py", "unset PULUMI_BACKEND_URL",
        _with(lambda: contexts.require_own_state(_stack()), EMBEDDED="1",
              PULUMI_BACKEND_URL="file:///real"),
        _with(lambda: contexts.require_own_state(_stack()), EMBEDDED="1")),
    Row(f"{COMMANDS}/contexts.py", "to change the real stack, leave --embedded out",
        _with(lambda: contexts.require_own_state(_stack()), EMBEDDED="1",
              PULUMI_BACKEND_URL="file:///real"),
        _with(lambda: contexts.require_own_state(_stack()), PULUMI_BACKEND_URL="file:///real")),
    Row(f"{COMMANDS}/files.py", "create the folder, or name another file with --file",
        lambda: new_file("--file", "out/page.html"), _made("out/page.html")),
    Row(f"{COMMANDS}/files.py", "or name another file with --file",
        lambda: new_file("--file", "."), lambda: new_file("--file", "page.html")),
    Row(f"{COMMANDS}/host_keys.py", "correct the names",
        _chosen(HOST, "gpu-9"), _chosen(HOST, "gpu-1")),
    Row(f"{COMMANDS}/host_keys.py", "declare the hosts, without hostKey",
        _chosen(""), _chosen(HOST)),
    Row(f"{COMMANDS}/host_keys.py", "add the printed keys by hand",
        lambda: host_keys.with_host_keys(STACK + NAMED, {"gpu-1": KEYS[0]}),
        lambda: load(settings_of(STACK + NAMED.replace("}, a", f"}}, hostKey: {KEYS[0]}, a")))),
    Row(f"{COMMANDS}/init.py", "such as --stacks staging,prod",
        lambda: init.values_of(("a b",), ""), lambda: init.values_of(("staging", "prod"), "")),
    Row(f"{COMMANDS}/init.py", "write --owners @org/gpu, for example",
        lambda: init.values_of(("prod",), "org"), lambda: init.values_of(("prod",), "@org/gpu")),
    Row(f"{COMMANDS}/init.py", "write --forge github",
        lambda: init.site_files("gihub", init.values_of(("prod",), "")),
        lambda: init.site_files("github", init.values_of(("prod",), ""))),
    Row(f"{COMMANDS}/init.py", "use a new folder", _absent("site"), _absent("other")),
    Row(f"{COMMANDS}/init.py", "download it with the release",
        _constraints("9.9.9"), _constraints(VERSION)),
    Row(f"{COMMANDS}/init.py", "name the release's constraints file with --constraints",
        _with(lambda: init.requirements(None), PIP_NO_INDEX="1"), _constraints(VERSION)),
    Row(f"{COMMANDS}/new.py", "choose another name",
        _new(stack="old", nodes="gpu-1", gpus="8"), _new(stack="young", nodes="gpu-1", gpus="8")),
    Row(f"{COMMANDS}/new.py", "or --nodes gpu-[1-4]",
        _new(stack="young"), _new(stack="young", nodes="gpu-[1-4]")),
    Row(f"{COMMANDS}/new.py", "--from-inventory FILE",
        _new(stack="young"), _new(stack="young", from_inventory="hosts.ini", gpus="8")),
    Row(f"{COMMANDS}/new.py", "name the nodes that have GPUs: --nodes gpu-[1-4] --gpus 8",
        _new(stack="young", from_inventory="hosts.ini", nodes="web-1"),
        _new(stack="young", from_inventory="hosts.ini", nodes="gpu-[1-1]", gpus="8")),
    Row(f"{COMMANDS}/new.py", "correct the names", _of_context("gpu-9"), _of_context("gpu-[1-2]")),
    Row(f"{COMMANDS}/placeholders.py", "declare that value with pulumi.Output.secret",
        _state(mark=False), _state(mark=True)),
    Row(f"{COMMANDS}/preview_state.py", "correct what the message names",
        _pulumi(""), _pulumi("state.json")),
    Row(f"{COMMANDS}/preview_state.py", "set PREVIEW_BACKEND_URL to another bucket or folder",
        _preview(), _preview(**OWN_BACKEND)),
    Row(f"{COMMANDS}/preview_state.py", "set PREVIEW_BACKEND_URL to another bucket or folder",
        _preview(**DEFAULT_BACKEND), _preview(**OWN_BACKEND)),
    Row(f"{COMMANDS}/report/__main__.py", "name a change document with --change",
        _report(change="none.json"), _report(change="change.json")),
    Row(f"{COMMANDS}/stack_edit.py", "write the printed edits by hand",
        lambda: edited(FLOW, [PLUGIN]),
        lambda: settings_of(FLOW.replace("0.19.2", "0.20.1"))),
    Row(f"{COMMANDS}/upgrade_check.py", "name it with --since", _since(""), _since(VERSION)),
    Row(f"{COMMANDS}/validate.py", "remove them from `maintenance` of the stack",
        _nodes("gpu-1", "gpu-1"), _nodes("gpu-1")),
    Row(f"{COMMANDS}/validate.py", "or from --nodes",
        _nodes("gpu-1,gpu-2", "gpu-1"), _nodes("gpu-2", "gpu-1")),
    Row(f"{COMMANDS}/validate.py", "correct the names, or leave --nodes out for all",
        _nodes("gpu-9"), _nodes("gpu-[1-4]")),
    Row(f"{COMMANDS}/validate.py", "or leave --nodes out for all", _nodes("gpu-9"), _nodes("")),
    Row(f"{COMMANDS}/validate.py", "correct the names, or declare the test in the stack file",
        lambda: validate.chosen_tests("nccl", ["all-reduce"]),
        lambda: validate.chosen_tests("all-reduce", ["all-reduce"])),
    Row(f"{COMMANDS}/validate.py", "or declare the test in the stack file",
        lambda: validate.chosen_tests("nccl", []),
        lambda: validate.chosen_tests("nccl", ["nccl"])),
    Row(f"{COMMANDS}/why.py", "for example `gpu-cluster why default/train`",
        lambda: why.named("default/"), lambda: why.named("default/train")),
    Row("components/gpu_cluster/change/file.py", "create its folder",
        _change("out/change.json"), _folder("out", _change("out/change.json"))),
    Row("components/gpu_cluster/change/file.py", "or name another file or folder",
        _change("out/change.json"), _change("change.json")),
    Row("components/gpu_cluster/package/provider.py", "use one of these",
        _component("gpucluster:index:Slurm"), _component("gpucluster:index:GpuCluster")),
    Row("components/gpu_cluster/package/provider.py", "remove it; GpuCluster does not have it",
        _package(nodes=8.0), _package()),
    Row("components/gpu_cluster/package/provider.py", "write the value, or read it from",
        _package(kubernetes={"context": UNKNOWN}), _package(kubernetes={"context": "prod"})),
)  # fmt: skip


@pytest.mark.promise("A cure of a command removes the fault and brings no new one.")
@pytest.mark.advice("several")
@pytest.mark.parametrize("row", ROWS, ids=[row.cure[:48] for row in ROWS])
def test_a_command_runs_after_the_cure(row: Row, record_property: Record) -> None:
    refusals = (FaultError, InputPropertiesError, SystemExit, pulumi.RunError)
    with pytest.raises(refusals) as refused:
        row.refused()
    row.mended()
    errors = getattr(refused.value, "errors", None) or ()
    text = "\n".join([str(refused.value), *(str(each["reason"]) for each in errors)])
    note(record_property, row.source, text, row.cure)


@pytest.mark.advice("several")
def test_a_lock_that_its_holder_released_is_taken(
    folder: Path, monkeypatch: pytest.MonkeyPatch, record_property: Record
) -> None:
    monkeypatch.setattr(lock, "LIMIT", 0.0)
    path = folder / "locks" / "run"

    def taken() -> None:
        with lock.one_run(path, "gpu-cluster up"):
            pass

    with locked(path, 0.0, command="`gpu-cluster destroy`"), pytest.raises(SystemExit) as refused:
        taken()
    taken()
    cure = "wait for this process or end it, then run again"
    note(record_property, f"{COMMANDS}/lock.py", refused.value, cure)


@pytest.mark.advice("several")
def test_an_installed_package_has_the_embedded_cluster_and_the_tools(
    folder: Path, monkeypatch: pytest.MonkeyPatch, record_property: Record
) -> None:
    own, fake = (
        _stack("gpu-cluster-lab"),
        _with(lambda: lab.embedded_cluster(_stack()), EMBEDDED="1"),
    )
    found = []
    with monkeypatch.context() as site:
        site.setattr(lab, "has_lab", lambda: False)
        site.setattr(tools, "has_lab", lambda: False)
        site.setenv("PATH", str(folder))
        for call in (lambda: lab.embedded_cluster(own), fake):
            with pytest.raises(FaultError) as refused:
                call()
            found.append(refused.value)
        with pytest.raises(ToolchainError) as no_engine:
            tools.ensure("pulumi")
        with pytest.raises(ToolchainError) as other:
            tools._require_toolchain(["helm"])
        (folder / "pulumi").touch(mode=0o755)
        assert tools.ensure("pulumi")["pulumi"].path == folder / "pulumi"
    assert lab.embedded_cluster(own) is not None
    tools._require_toolchain(["helm"])
    for error in found:
        note(record_property, f"{COMMANDS}/lab.py", error, "install its wheel")
    note(record_property, f"{COMMANDS}/tools.py", no_engine.value, "install Pulumi")
    note(record_property, f"{COMMANDS}/tools.py", other.value, "install the wheel gpu-cluster-lab")


@pytest.mark.advice("several")
def test_a_started_cluster_is_previewed(
    monkeypatch: pytest.MonkeyPatch, record_property: Record
) -> None:
    own = embedded_cluster.EmbeddedCluster(_stack("gpu-cluster-lab"))
    with pytest.raises(FaultError) as refused:
        own.require_running()
    # `gpu-cluster start` ends once all components run and the API server responds.
    runs = simulator.Status("lab", {"etcd": 1}, (), ready=True, nodes=4)
    monkeypatch.setattr(simulator, "status", lambda _: runs)
    own.stack.kubeconfig.parent.mkdir(parents=True)
    own.stack.kubeconfig.touch()
    own.require_running()
    cure = "run `gpu-cluster start --stack lab`"
    note(record_property, f"{COMMANDS}/embedded_cluster.py", refused.value, cure)


@pytest.mark.advice("several")
def test_a_state_that_can_be_read_has_the_results_of_tests(
    monkeypatch: pytest.MonkeyPatch, record_property: Record
) -> None:
    class Selected:
        """The engine's stack, whose outputs can be read or not."""

        def __init__(self, tests: object) -> None:
            self.tests = tests

        def outputs(self) -> dict[str, automation.OutputValue]:
            return {"tests": automation.OutputValue(self.tests, secret=False)}

    lab_stack = _stack()
    monkeypatch.setattr(evidence, "select", lambda _: Selected("cut"))
    with pytest.raises(FaultError) as refused:
        evidence._measured_figures(lab_stack)
    result = {"test": "nccl", "node": "gpu-1", "pool": "a100", "figure": 300.0, "minimum": 250.0}
    monkeypatch.setattr(evidence, "select", lambda _: Selected([result]))
    assert [each.node for each in evidence._measured_figures(lab_stack)] == ["gpu-1"]
    source = f"{COMMANDS}/evidence/__main__.py"
    note(record_property, source, refused.value, "check that the state can be read")


def _server(lists: dict[str, list[Json]]) -> Callable[[httpx.Request], httpx.Response]:
    def answer(request: httpx.Request) -> httpx.Response:
        items = lists.get(request.url.path.rpartition("/")[2], [])
        return httpx.Response(200, json={"items": items, "metadata": {}})

    return answer


@pytest.mark.advice("several")
def test_a_name_that_kubectl_lists_is_explained(record_property: Record) -> None:
    world = World.of(base())
    status = {"phase": "Succeeded"}
    metadata = {"name": "train", "namespace": "team", "uid": "u-1"}
    pod = {"metadata": metadata, "spec": {"containers": []}, "status": status}

    def explain_pod(**lists: list[Json]) -> Json:
        answer: Json = {}
        asyncio.run(why.found(client(_server(lists)), "team", "train", answer))
        return answer

    with pytest.raises(FaultError) as no_pod:
        explain_pod()
    assert explain_pod(pods=[pod])["pod"] == "team/train"

    def explain(name: str) -> Json:
        answer: Json = {}
        serve = _server({"nodes": [*world.nodes.values()], "pods": []})
        asyncio.run(explain_node(client(serve), name, desired_of(base()), answer))
        return answer

    with pytest.raises(FaultError) as no_node:
        explain("gpu-99")
    assert explain("gpu-1")["node"] == "gpu-1"
    note(record_property, f"{COMMANDS}/why.py", no_pod.value, "see `kubectl get pods -n team`")
    note(record_property, f"{COMMANDS}/why_node.py", no_node.value, "see `kubectl get nodes`")


@contextmanager
def _host(folder: Path, key: asyncssh.SSHKey, trusted: asyncssh.SSHKey) -> Iterator[int]:
    """Run an SSH server whose sessions run their command in a folder; yield its port."""
    authorized = folder / "authorized_keys"
    authorized.write_bytes(trusted.export_public_key())

    async def session(process: asyncssh.SSHServerProcess[bytes]) -> None:
        done = subprocess.run(
            ["sh", "-c", process.command or "exit 1"],
            input=await process.stdin.read(),
            env={"PATH": os.defpath, "GPU_CLUSTER_ROOT": str(folder)},
            capture_output=True,
            check=False,
        )
        process.stdout.write(done.stdout)
        process.stderr.write(done.stderr)
        process.exit(done.returncode)

    async def serve() -> None:
        options = {"server_host_keys": [key], "authorized_client_keys": str(authorized)}
        server = asyncssh.listen("127.0.0.1", 0, process_factory=session, encoding=None, **options)
        async with server as listening:
            ports.append(listening.get_port())
            begun.set()
            while not ended.is_set():
                await asyncio.sleep(0.01)

    ports: list[int] = []
    begun, ended = threading.Event(), threading.Event()
    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    try:
        assert begun.wait(20)
        yield ports[0]
    finally:
        ended.set()
        thread.join()


@pytest.mark.advice("several")
def test_a_host_with_the_key_loses_its_records(folder: Path, record_property: Record) -> None:
    server, ours = (asyncssh.generate_private_key("ssh-ed25519") for _ in range(2))
    records = folder / "var" / "lib" / "gpu-cluster"
    records.mkdir(parents=True)
    with _host(folder, server, ours) as port:
        host = {
            "name": "gpu-1",
            "address": "127.0.0.1",
            "port": port,
            "hostKey": server.export_public_key().decode().strip(),
        }
        desired = resolve(load(stack_document(hosts=[host])), "lab")
        with pytest.raises(FaultError) as refused:
            leave.leave_hosts(desired.hosts, "")
        leave.leave_hosts(desired.hosts, ours.export_private_key().decode())
        assert not records.exists()
    source = f"{COMMANDS}/adoption/leave.py"
    cure = "if the host is gone, run `gpu-cluster forget gpu-1`"
    note(record_property, source, refused.value, cure)
