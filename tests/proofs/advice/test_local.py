"""Cures of files, keys and contexts on the user's machine are followed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from http.server import HTTPServer
from pathlib import Path
from typing import Any

import asyncssh
import pulumi
import pytest
import yaml

from gpu_cluster.desired.resolve import resolve
from gpu_cluster.host_facts import HostFacts
from gpu_cluster.hosts import credentials, steps
from gpu_cluster.hosts.copies import unreached_fault
from gpu_cluster.hosts.kubeadm import kubeconfig as written
from gpu_cluster.hosts.kubeadm import scripts
from gpu_cluster.hosts.kubeadm.access import Administrator
from gpu_cluster.hosts.kubeadm.component import manifests
from gpu_cluster.hosts.observed.inspect import inspecting_key
from gpu_cluster.hosts.steps import sysctl
from gpu_cluster.inspection import judgement, observed_cluster
from gpu_cluster.kubernetes import api
from gpu_cluster.kubernetes.kubeconfig_contexts import missing_context
from gpu_cluster.loading.loader import load
from gpu_cluster.nodes import applied
from gpu_cluster.platforms import validate_cluster as platforms
from gpu_cluster.platforms.findings import Surroundings
from gpu_cluster.platforms.validate_cluster import validate_cluster
from gpu_cluster.ssh import key_files
from gpu_cluster_lab.simulator.http_servers import QuietHandler, running
from gpu_rules.faults import Fault
from tests.components.change.world import desired_of
from tests.fixtures.documents import KEYS, stack_document
from tests.fixtures.kubeconfigs import kubeconfig, pair
from tests.proofs.advice.edits import merged
from tests.proofs.advice.following import follow_cure
from tests.proofs.advice.rows import Record, row_of
from tests.proofs.logins.rig import NAME

Json = dict[str, Any]
KEY = asyncssh.generate_private_key("ssh-ed25519").export_private_key().decode()
LOCKED = (
    asyncssh.generate_private_key("ssh-ed25519")
    .export_private_key("pkcs8-pem", passphrase="secret")
    .decode()
)
HOST: Json = {
    "name": NAME,
    "address": "192.0.2.1",
    "hostKey": "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGPVVJnWq0RGVDc6v0ocP1kZbAnZ3WQ2GuMHyM9Ea5kT",
}
STACK: Json = stack_document(hosts=[HOST])
pytestmark = pytest.mark.advice("several")


def test_a_private_key_is_configured(record_property: Record) -> None:
    hosts = resolve(load(STACK), "dev").hosts
    follow_cure(
        "pulumi config set --secret gpu-cluster:sshPrivateKey",
        lambda: credentials.refused(hosts, "", None),
        lambda: credentials.refused(hosts, KEY, None),
        record_property,
    )


@pytest.mark.parametrize("token", [None, "abc"])
def test_a_token_is_configured(token: str | None, record_property: Record) -> None:
    hosts = tuple(replace(host, joins=True) for host in resolve(load(STACK), "dev").hosts)
    follow_cure(
        "`kubeadm token create |",
        lambda: credentials.refused(hosts, KEY, token),
        lambda: credentials.refused(hosts, KEY, "abcdef.0123456789abcdef"),
        record_property,
    )


def test_a_key_without_a_passphrase_is_made(record_property: Record) -> None:
    def check(key: str) -> list[Fault]:
        inspecting_key(key)
        return []

    follow_cure("ssh-keygen -t ed25519", lambda: check(LOCKED), lambda: check(KEY), record_property)


def test_a_key_file_that_can_be_read_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, record_property: Record
) -> None:
    (tmp_path / "key").write_text(KEY)

    def check(name: str) -> list[Fault]:
        monkeypatch.setenv(key_files.KEY_FILE, str(tmp_path / name))
        assert key_files.key_of_file() == KEY
        return []

    follow_cure("name another, or", lambda: check("kay"), lambda: check("key"), record_property)


def test_a_host_that_cannot_be_reached_is_declared_in_maintenance(record_property: Record) -> None:
    facts = HostFacts(error="no login as root at host 192.0.2.1:22", cure="start the host")

    def check(document: Json) -> list[Fault]:
        hosts = resolve(load(document), "dev").hosts
        return [unreached_fault(each.name, facts) for each in hosts if not each.in_maintenance]

    follow_cure(
        "or declare it in `maintenance`",
        lambda: check(STACK),
        lambda: check({**STACK, "maintenance": [NAME]}),
        record_property,
    )


@pytest.mark.parametrize(
    ("cure", "text"), [("correct the path or the file", "a: ["), ("correct the file", "a: 1")]
)
def test_a_file_of_manifests_is_corrected(
    cure: str, text: str, tmp_path: Path, record_property: Record
) -> None:
    file = tmp_path / "cni.yaml"
    file.write_text(text)
    with pytest.raises(pulumi.RunError) as refused:
        manifests(str(file))
    message = str(refused.value)
    assert message.endswith(f"cure: {cure}")
    file.write_text("apiVersion: v1\nkind: Namespace\nmetadata: {name: cni}\n")
    assert len(manifests(str(file))) == 1
    anchor = row_of(message, "kubeadm/component.py")
    record_property("advice", ("cure", anchor, True))


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the file of the user's kubeconfig."""
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "config"))
    monkeypatch.setattr(written, "LOCK_SECONDS", 0)
    return tmp_path / "config"


def _named(config: Path) -> None:
    config.write_text(kubeconfig(context="dev"))


def test_a_context_of_the_kubeconfig_is_declared(config: Path, record_property: Record) -> None:
    _named(config)

    def check(context: str) -> list[Fault]:
        return [fault for fault in [missing_context(context)] if fault is not None]

    follow_cure(
        "correct kubernetes.context",
        lambda: check("dav"),
        lambda: check("dev"),
        record_property,
    )


def request(context: str, key: str) -> written.KubeconfigRequest:
    certificate = pair("kubernetes-admin")[0]
    administrator = Administrator(
        server="https://192.0.2.9:6443",
        authority=pair("kubernetes")[0],
        certificate=certificate,
        key=key,
    )
    return written.KubeconfigRequest(context=context, administrator=administrator)


def write(context: str = "dev", key: str = "") -> list[Fault]:
    """Write the context of a new cluster into the user's kubeconfig."""
    asyncio.run(written.apply(request(context, key or pair("kubernetes-admin")[1])))
    return []


def test_the_key_of_the_administrator_is_corrected(config: Path, record_property: Record) -> None:
    follow_cure(
        "inspect /etc/kubernetes/admin.conf",
        lambda: write(key=pair("another")[1]),
        write,
        record_property,
    )


def test_a_lock_that_nobody_holds_is_removed(config: Path, record_property: Record) -> None:
    lock = config.with_name("config.lock")
    lock.touch()

    def cured() -> list[Fault]:
        lock.unlink()
        return write()

    follow_cure("remove the file if none runs", write, cured, record_property)


def test_another_context_is_declared(config: Path, record_property: Record) -> None:
    _named(config)
    follow_cure("declare another kubernetes.context", write, lambda: write("new"), record_property)


def test_a_kubeconfig_is_corrected(config: Path, record_property: Record) -> None:
    config.write_text("a: [")

    def cured() -> list[Fault]:
        config.write_text(yaml.safe_dump({"contexts": []}))
        return write()

    follow_cure("correct the file", write, cured, record_property)


class Server(QuietHandler):
    """API server that accepts the token `right`."""

    def do_GET(self) -> None:
        """Answer a request for the version."""
        is_right = self.headers.get("Authorization") == "Bearer right"
        self.send_response(200 if is_right else 401)
        self.end_headers()
        self.wfile.write(b'{"gitVersion": "v1.36.3"}' if is_right else b"{}")


def connected() -> list[Fault]:
    """Log in to the cluster of the context `dev`."""

    async def log_in() -> None:
        async with api.connect("dev"):
            pass

    asyncio.run(log_in())
    return []


@pytest.mark.parametrize(
    ("cure", "broken"),
    [
        ("log in again, and see", lambda server: kubeconfig(server, context="dev", token="wrong")),
        ("check KUBECONFIG and", lambda _: kubeconfig("http://127.0.0.1:1", context="dev")),
        (
            "`kubectl config get-contexts`",
            lambda server: kubeconfig(server, context="dev").replace("user: u", "user: v"),
        ),
    ],
)
def test_a_kubeconfig_logs_in(
    cure: str, broken: Callable[[str], str], config: Path, record_property: Record
) -> None:
    with running(HTTPServer(("127.0.0.1", 0), Server)) as address:
        config.write_text(broken(address))

        def cured() -> list[Fault]:
            config.write_text(kubeconfig(address, context="dev", token="right"))
            return connected()

        follow_cure(cure, connected, cured, record_property)


def test_the_cluster_of_a_control_plane_is_declared(record_property: Record) -> None:
    init = {"endpoint": "192.0.2.9:6443", "network": {"manifest": "cni.yaml"}}
    document = stack_document(hosts=[HOST, {**HOST, "name": "cp-1", "role": "control-plane"}])
    document["hosts"][1] |= {"address": "192.0.2.9", "hostKey": KEYS[0]}
    whole = {**document, "kubernetesPackages": {"version": "1.36.6", "init": init}}
    with pytest.raises(ValueError, match="declare it for the first control plane") as refused:
        scripts.member_seconds(resolve(load(document), "dev").hosts[1])
    assert scripts.member_seconds(resolve(load(whole), "dev").hosts[1])
    anchor = row_of(str(refused.value), "kubeadm/scripts.py")
    record_property("advice", ("cure", anchor, True))


def test_a_node_is_handed_back_by_another_stack(record_property: Record) -> None:
    (pool,) = resolve(load(STACK), "dev").scheduling.pools
    (other,) = resolve(load(STACK), "other").scheduling.pools

    def check(annotations: Json) -> list[Fault]:
        node = {"metadata": {"name": NAME, "annotations": annotations}}
        return list(observed_cluster._of_other_stacks([node], pool))

    follow_cure(
        "or hand them back with `gpu-cluster leave`",
        lambda: check(applied.annotation(other, NAME)),
        lambda: check({}),
        record_property,
    )


def test_access_to_an_endpoint_is_allowed(record_property: Record) -> None:
    hosts, address = resolve(load(STACK), "dev").hosts, "192.0.2.5:443"

    def check(*unreached: str) -> list[Fault]:
        facts = {NAME: HostFacts(unreached=unreached)}
        return list(judgement._check_endpoints({"licence server": address}, hosts, facts))

    follow_cure(
        "or allow these hosts the access", lambda: check(address), lambda: check(), record_property
    )


def test_access_of_the_cluster_to_an_endpoint_is_allowed(
    monkeypatch: pytest.MonkeyPatch, record_property: Record
) -> None:
    platform = desired_of(STACK).platform
    licences = {"licence server": "192.0.2.5:443"}
    monkeypatch.setattr(type(platform), "endpoints", lambda _: licences)

    def check(problem: str) -> list[Fault]:
        surroundings = Surroundings(version="v1.36.3", endpoints={"192.0.2.5:443": problem})
        return list(platforms._check_endpoints(platform, surroundings))

    follow_cure(
        "correct the address or allow the access",
        lambda: check("connection refused"),
        lambda: check(""),
        record_property,
    )


def test_a_step_names_a_step_of_its_phase(
    monkeypatch: pytest.MonkeyPatch, record_property: Record
) -> None:
    with monkeypatch.context() as broken:
        broken.setattr(sysctl, "STEP", replace(sysctl.STEP, after="nowhere"))
        with pytest.raises(ValueError, match="correct `after`") as one:
            steps.every.__wrapped__()
    assert steps.every.__wrapped__()["sysctl"].after
    anchor = row_of(str(one.value), "steps/__init__.py")
    record_property("advice", ("cure", anchor, True))


DRA: Json = {
    "platform": "dra",
    "runtime": {"defaultRuntime": "runc"},
    "dra": {"extraValues": {"featureGates": {"NVMLDeviceHealthCheck": True}}},
}
MANAGER: Json = {
    "platform": "gpu-manager",
    "runtime": {"defaultRuntime": "runc"},
}
SEEN: dict[str, tuple[str, Json, Json, str, str]] = {
    "DRADeviceTaints": (
        "or upgrade to 1.36",
        DRA,
        DRA,
        "v1.35.2",
        "v1.36.3",
    ),
    "cgroup v1": (
        "or declare another platform",
        MANAGER,
        {},
        "v1.35.2",
        "v1.35.2",
    ),
    "kube-scheduler": (
        'write "kubeSchedulerVersion: v1.36.3"',
        {"platform": "hami", "hami": {"kubeSchedulerVersion": "v1.30.14"}},
        {"platform": "hami", "hami": {"kubeSchedulerVersion": "v1.36.3"}},
        "v1.36.3",
        "v1.36.3",
    ),
}
"""Words of the cure, sections before and after the cure, Kubernetes before and after the cure."""


@pytest.mark.parametrize("name", SEEN)
def test_the_cluster_fits_the_platform(name: str, record_property: Record) -> None:
    cure, broken, cured, before, after = SEEN[name]

    def check(sections: Json, version: str) -> list[Fault]:
        desired = desired_of(merged(stack_document(hosts=[]), sections))
        surroundings = Surroundings(version=version, groups={"resource.k8s.io": ["v1"]})
        return validate_cluster(desired.platform, surroundings, {}, {}, desired.wanted)

    follow_cure(cure, lambda: check(broken, before), lambda: check(cured, after), record_property)


@pytest.mark.parametrize(
    ("cure", "broken", "cured"),
    [
        ("boot with systemd.unified_cgroup_hierarchy=0", {"cgroup": 2}, {"cgroup": 1}),
        (
            "make runc the engine's default runtime",
            {"default_runtime": "nvidia"},
            {"default_runtime": "runc"},
        ),
    ],
)
def test_a_host_of_gpu_manager_is_configured(
    cure: str, broken: Json, cured: Json, record_property: Record
) -> None:
    desired = desired_of(merged(STACK, MANAGER))

    def check(facts: Json) -> list[Fault]:
        seen = {NAME: HostFacts(**{"cgroup": 1, **facts})}
        surroundings = Surroundings(version="v1.34.4")
        return validate_cluster(desired.platform, surroundings, {}, seen, desired.wanted)

    follow_cure(cure, lambda: check(broken), lambda: check(cured), record_property)
