"""`GpuCluster` in a user's Pulumi program, with mocks: names, secrets and error messages."""

from __future__ import annotations

import asyncio
import io
import json
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pulumi
import pytest
import yaml

from gpu_cluster import hooks
from gpu_cluster.cluster import GpuCluster, GpuClusterArgs, GpuDevicePlugin, GpuValidation
from gpu_cluster.inspection.bounds import completed
from gpu_cluster.kubernetes.api import ClusterError, connect
from gpu_cluster.kubernetes.kubeconfig_contexts import given, given_kubeconfig, missing_context
from gpu_cluster.loading.cross import validate
from gpu_cluster.loading.loader import load
from gpu_cluster.program import main
from gpu_cluster.requests import Enclosed, opened, write
from gpu_cluster.settings.cluster import Cluster
from gpu_cluster.settings.hosts.driver import DriverSettings
from gpu_cluster.settings.nodes.pool import Pool
from gpu_cluster.settings.valid_sections import ValidSections
from gpu_rules.faults import Fault
from tests.fixtures import kubeconfigs
from tests.fixtures.clusters import cluster
from tests.fixtures.documents import stack_document
from tests.mocks import Recorded, Recorder, declare, without_secrets

CANARY = "canary-77ab-token"
RELEASE = "kubernetes:helm.sh/v3:Release"


def kubeconfig(context: str = "test", token: str = CANARY) -> str:
    """Return a kubeconfig with one context."""
    return kubeconfigs.kubeconfig(context=context, token=token)


def build(
    text: pulumi.Input[str] | None,
    *names: str,
    preview: bool = False,
    settings: Cluster | Mapping[str, Any] | None = None,
) -> Recorder:
    """Return the resources that clusters of these names declare, all with the same kubeconfig."""
    declared = settings or cluster(hosts=[])

    def program() -> None:
        for name in names or ("site",):
            GpuCluster(name, GpuClusterArgs(settings=declared, kubeconfig=text))

    return declare(program, preview=preview)


def later() -> pulumi.Output[str]:
    """Return a kubeconfig as an Output that resolves while the program runs."""

    async def arrives() -> str:
        await asyncio.sleep(0.01)
        return kubeconfig()

    return pulumi.Output.from_input(arrives())


def value(item: Any) -> Any:
    """Return the plain value of an input that may be a Pulumi secret."""
    return item["value"] if isinstance(item, dict) else item


def provider(recorder: Recorder) -> Recorded:
    (made,) = recorder.of("pulumi:providers:kubernetes")
    return made


@pytest.mark.usefixtures("no_hooks")
@pytest.mark.parametrize("waits", [False, True], ids=["known", "output"])
def test_all_that_reaches_the_cluster_gets_the_kubeconfig_as_a_secret(waits: bool) -> None:
    found: list[Recorder] = []

    def program() -> None:
        text = later() if waits else kubeconfig()
        settings = cluster(hosts=[], platform="gpu-operator")
        GpuCluster("site", GpuClusterArgs(settings=settings, kubeconfig=text))

    found.append(declare(program, preview=False))
    (recorder,) = found
    assert value(provider(recorder).inputs["kubeconfig"]) == kubeconfig()
    commands = recorder.of("command:local:Command")
    assert len(commands) > 3
    for command in commands:
        text, request = opened(value(command.inputs["stdin"]))
        assert text == kubeconfig()
        assert json.loads(request)["context"] == "test"
    for resource in recorder.resources:
        assert CANARY not in json.dumps(without_secrets(resource.inputs), default=str)


class SlowRelease(Recorder):
    """Mocks with a Helm release that becomes ready late, as a chart that waits for its pods."""

    def new_resource(self, args: pulumi.runtime.MockResourceArgs) -> tuple[str | None, Any]:
        if args.typ == RELEASE:
            time.sleep(0.2)
        return super().new_resource(args)


@pytest.mark.promise(
    "A part that depends on the output `ready` of another part is deployed after all resources of "
    "that part, also if the kubeconfig is an output."
)
@pytest.mark.usefixtures("no_hooks")
@pytest.mark.parametrize("waits", [False, True], ids=["known", "output"])
def test_a_part_that_waits_for_another_is_declared_after_its_children(waits: bool) -> None:
    def program() -> None:
        text = later() if waits else kubeconfig()
        args = GpuClusterArgs(settings=cluster(hosts=[]), kubeconfig=text)
        plugin = GpuDevicePlugin("plugin", args)
        GpuValidation("validation", args, pulumi.ResourceOptions(depends_on=plugin.ready))

    made = [
        (each.token, each.name)
        for each in declare(program, preview=False, recorder=SlowRelease()).resources
    ]
    release = made.index((RELEASE, "plugin-gpu-platform-release"))
    after = [name for _, name in made[release:] if name.startswith("validation")]
    assert "validation-validation.pools" in after
    assert not [name for _, name in made[:release] if name.startswith("validation")]


@pytest.mark.usefixtures("no_hooks")
def test_without_a_kubeconfig_programs_and_provider_use_the_machines() -> None:
    recorder = build(None)
    assert provider(recorder).inputs["kubeconfig"] == ""
    for command in recorder.of("command:local:Command"):
        assert opened(value(command.inputs["stdin"]))[0] is None


@pytest.mark.usefixtures("no_hooks")
@pytest.mark.parametrize("preview", [False, True], ids=["up", "preview"])
def test_clusters_of_one_program_share_no_name(preview: bool) -> None:
    names = ("a", "Any.name_1", "0-cluster")
    recorder = build(kubeconfig(), *names, preview=preview)
    made = [(resource.token, resource.name) for resource in recorder.resources]
    assert len(set(made)) == len(made)
    parts = {
        name: {(token, own.removeprefix(name)) for token, own in made if own.startswith(name)}
        for name in names
    }
    assert parts["a"] == parts["Any.name_1"] == parts["0-cluster"]
    assert sum(map(len, parts.values())) == len(made)
    assert len(recorder.of("pulumi:providers:kubernetes")) == len(names)


@pytest.mark.usefixtures("no_hooks")
@pytest.mark.parametrize(
    ("text", "says"),
    [
        (kubeconfig("other"), "kubernetes.context of settings: found test, which is not in"),
        ("", "it has none"),
        ("/home/me/.kube/config", "it has none"),
        ("a: [", "it has none"),
    ],
)
def test_a_kubeconfig_without_the_context_is_refused(text: str, says: str) -> None:
    with pytest.raises(pulumi.RunError, match=says) as raised:
        build(text)
    assert "that was given" in str(raised.value)
    assert CANARY not in str(raised.value)


@pytest.mark.usefixtures("no_hooks")
def test_bad_settings_are_refused_by_their_paths_all_at_once() -> None:
    document = stack_document(
        context="test",
        pools=[{"name": "a", "nodes": ["gpu-1"], "gpusPerNode": -1}],
        validation={"timeoutSeconds": "soon"},
    )
    with pytest.raises(pulumi.RunError) as raised:
        build(None, settings=document)
    text = str(raised.value)
    assert text.startswith("settings: ")
    assert "pools[0].gpusPerNode" in text
    assert "validation.timeoutSeconds" in text


@pytest.mark.usefixtures("no_hooks")
@pytest.mark.promise("Plain `pulumi preview` names the line of each fault in the stack file.")
def test_a_fault_is_named_with_its_line_in_the_stack_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    document = stack_document(
        context="test",
        pools=[{"name": "a", "nodes": ["gpu-1"], "gpusPerNode": -1}],
        validation={"timeoutSeconds": "soon"},
    )
    monkeypatch.chdir(tmp_path)
    text = yaml.safe_dump({"config": {"gpu-cluster:cluster": document}}, sort_keys=False)
    Path("Pulumi.lab.yaml").write_text(text)
    lines = {key: number for number, line in enumerate(text.splitlines(), 1)
             for key in ("gpusPerNode", "timeoutSeconds") if key in line}  # fmt: skip
    with pytest.raises(pulumi.RunError) as raised:
        declare(
            lambda: GpuCluster("site", GpuClusterArgs(settings=document, source="Pulumi.lab.yaml")),
            preview=True,
        )
    said = str(raised.value)
    assert said.startswith("Pulumi.lab.yaml: 2 problems\n")
    assert f"pools[0].gpusPerNode (line {lines['gpusPerNode']}): found -1" in said
    assert f"validation.timeoutSeconds (line {lines['timeoutSeconds']}): found" in said


@pytest.mark.usefixtures("no_hooks")
@pytest.mark.parametrize("kind", ["document", "loaded", "copied"])
def test_the_rules_between_parts_run_once_in_a_program(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    checked: list[ValidSections] = []

    def counting(sections: ValidSections) -> Iterator[Fault]:
        checked.append(sections)
        return validate(sections)

    document = stack_document(
        context="test", pools=[{"name": "a", "nodes": ["gpu-1"], "gpusPerNode": 8}]
    )
    copied = load(document).model_copy()
    monkeypatch.setattr("gpu_cluster.loading.loader.validate", counting)
    settings = {"document": lambda: document, "loaded": lambda: load(document)}
    build(None, settings=settings.get(kind, lambda: copied)())
    assert len(checked) == 1


@pytest.mark.usefixtures("no_hooks")
def test_a_changed_copy_of_what_was_loaded_is_checked() -> None:
    loaded = cluster(hosts=[])
    pools = (*loaded.pools, *loaded.pools)
    with pytest.raises(pulumi.RunError, match="each pool name once"):
        build(None, settings=loaded.model_copy(update={"pools": pools}))


@pytest.mark.usefixtures("no_hooks")
def test_models_made_in_python_follow_the_rules_between_sections() -> None:
    pool = Pool(name="a100", nodes=("gpu-9",), gpus_per_node=8)
    made = Cluster(
        version="v1",
        kubernetes=cluster().kubernetes,
        platform="device-plugin",
        pools=(pool, pool.model_copy(update={"nodes": ("gpu-10",)})),
    )
    with pytest.raises(pulumi.RunError, match="each pool name once"):
        build(None, settings=made)


@pytest.mark.usefixtures("no_hooks")
def test_models_made_in_python_get_the_overrides_that_a_document_gets(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    loaded = cluster()
    pool, *others = loaded.pools
    driver = DriverSettings(version="580.65.06")
    changed = (pool.model_copy(update={"driver": driver}), *others)
    resolved: list[Cluster] = []

    def kept(settings: Cluster, name: str, **rest: Any) -> Any:
        resolved.append(settings)
        raise pulumi.RunError("enough")

    monkeypatch.setattr("gpu_cluster.cluster.resolve", kept)
    with pytest.raises(pulumi.RunError, match="enough"):
        build(None, settings=loaded.model_copy(update={"pools": changed}))
    members = [host for host in resolved[0].hosts if host.node in pool.node_names]
    assert {host.driver and host.driver.version for host in members} == {"580.65.06"}


@pytest.mark.usefixtures("no_hooks")
def test_hosts_without_a_key_are_refused() -> None:
    with pytest.raises(pulumi.RunError, match="private_key: found none"):
        build(None, settings=cluster())


@pytest.mark.usefixtures("no_hooks")
def test_a_cluster_is_either_there_or_made() -> None:
    init = {"endpoint": "192.0.2.9:6443", "network": {"manifest": "cni.yaml"}}
    settings = cluster(kubernetesPackages={"version": "1.34.4", "init": init})
    with pytest.raises(pulumi.RunError, match="kubeconfig: found a kubeconfig, in addition"):
        build(kubeconfig(), settings=settings)


def test_a_kubeconfig_that_was_given_is_used_inside_and_nowhere_else(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    (tmp_path / "machine").write_text(kubeconfig("machine"))
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "machine"))

    async def seen() -> Any:
        return given_kubeconfig()

    with given(kubeconfig("mine")):
        assert missing_context("mine") is None
        assert missing_context("machine") is not None
        assert completed(seen())["contexts"][0]["name"] == "mine"
    assert missing_context("machine") is None
    assert completed(seen()) is None


@pytest.mark.parametrize("text", ["", "no kubeconfig", kubeconfig("other")])
def test_what_is_no_kubeconfig_never_leads_to_the_machines_cluster(
    text: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    (tmp_path / "machine").write_text(kubeconfig("test"))
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "machine"))

    async def reach() -> None:
        async with connect("test"):
            pass

    with given(text), pytest.raises(ClusterError, match="not in the kubeconfig that was given"):
        asyncio.run(reach())


def test_a_hook_runs_with_the_kubeconfig_of_its_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Any] = []
    monkeypatch.setattr(pulumi, "ResourceHook", lambda name, run, _: made.append(run))
    monkeypatch.setattr(pulumi, "ResourceHookBinding", lambda **_: None)
    seen: list[Any] = []

    async def function(_: Any) -> None:
        await asyncio.to_thread(lambda: seen.append(given_kubeconfig()))

    for name in ("one", "two"):
        with given(kubeconfig(name)):
            hooks.binding(name, function)
    hooks.binding("machine", lambda _: seen.append(given_kubeconfig()))

    async def engine() -> None:
        for run in made:
            await run(None)

    asyncio.run(engine())
    names = [found and found["contexts"][0]["name"] for found in seen]
    assert names == ["one", "two", None]


def test_a_program_uses_the_kubeconfig_that_comes_with_its_request(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def act(request: dict[str, Any]) -> dict[str, Any]:
        found = given_kubeconfig()
        return {"request": request, "context": found and found["contexts"][0]["name"]}

    monkeypatch.setattr("sys.argv", ["program", "act"])
    plain = json.dumps({"kubeconfigs": 1})
    for sent, context in (
        (plain, None),
        (write(Enclosed(kubeconfig=kubeconfig("mine"), request=plain)), "mine"),
    ):
        monkeypatch.setattr("sys.stdin", io.StringIO(sent))
        main(dict[str, Any], {"act": act})
        assert json.loads(capsys.readouterr().out) == {
            "request": json.loads(plain),
            "context": context,
        }
    assert CANARY not in repr(Enclosed(kubeconfig=CANARY, request=CANARY))
