"""What the rules say of resources is what a real API server says, by server-side dry run."""

from __future__ import annotations

import os
import ssl
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import toolchain
from policies.rules import Context, evaluate

GPU, CORE, HCA = "nvidia.com/gpu", "tencent.com/vcuda-core", "rdma/hca"
ENFORCED = {"GPU001", "GPU002", "GPU003", "GPU008", "GPU009", "GPU010"}
"""The rules that the API server enforces on whole pods and templates."""
WAIT = 90


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    """A client of an API server of its own: real etcd and API server, nothing else."""
    folder = tmp_path_factory.mktemp("kwok")
    tools = toolchain.ensure("etcd", "kube-apiserver", "kwok", "kwokctl")
    kwokctl = str(tools["kwokctl"].path)
    env = {**os.environ, "KWOK_WORKDIR": str(folder), "KWOK_KUBE_VERSION": "v1.34.4"}
    kubeconfig = folder / "kubeconfig"
    name = ["--name", f"rules-{os.getpid()}"]
    binaries = {
        "--etcd-binary": "etcd",
        "--kube-apiserver-binary": "kube-apiserver",
        "--kwok-controller-binary": "kwok",
    }
    arguments = [f"{flag}={tools[tool].path}" for flag, tool in binaries.items()]
    arguments += [
        "--runtime=binary",
        "--disable-kube-scheduler",
        "--disable-kube-controller-manager",
    ]
    arguments += [f"--wait={WAIT}s", f"--kubeconfig={kubeconfig}"]
    try:
        done = subprocess.run(
            [kwokctl, "create", "cluster", *name, *arguments],
            env=env, capture_output=True, text=True, timeout=2 * WAIT, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        with _client(kubeconfig) as client:
            account = {
                "apiVersion": "v1",
                "kind": "ServiceAccount",
                "metadata": {"name": "default"},
            }
            answer = client.post("/api/v1/namespaces/default/serviceaccounts", json=account)
            assert answer.status_code in (201, 409), answer.text
            yield client
    finally:
        subprocess.run(
            [kwokctl, "delete", "cluster", *name, f"--kubeconfig={kubeconfig}"],
            env=env, capture_output=True, timeout=WAIT, check=False,
        )  # fmt: skip


def _client(kubeconfig: Path) -> httpx.Client:
    document = yaml.safe_load(kubeconfig.read_text())
    cluster, user = document["clusters"][0]["cluster"], document["users"][0]["user"]
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE  # loopback, a cluster of this test's own
    context.load_cert_chain(user["client-certificate"], user["client-key"])
    return httpx.Client(base_url=cluster["server"], verify=context, timeout=30)


def refused(client: httpx.Client, manifest: dict[str, Any]) -> str:
    """What the API server says against a manifest, empty where it takes it."""
    group = "apis/apps/v1" if manifest["kind"] == "Deployment" else "api/v1"
    plural = f"{manifest['kind'].lower()}s"
    answer = client.post(f"/{group}/namespaces/default/{plural}?dryRun=All", json=manifest)
    assert answer.status_code in (201, 400, 422), answer.text
    return "" if answer.status_code == 201 else str(answer.json()["message"])


ODD = (
    *(1, 2, 0, -1, 0.5, 1.0, 1e3, None, "1", "2", "01", "+1", "1000m", "500m", "0.9999999"),
    *("1.0001", "1k", "1e3", "1Ki", "0x8", "", " 1", "1.5", "-0.5", "2000m", "1E", "one"),
    *("10000000000000000", "1e16", "99999999999999999.5", "1e300", "8Ei", "1K", ".", "1n", "-0"),
)
AMOUNTS = st.one_of(
    st.sampled_from(ODD),
    st.integers(0, 10),
    st.from_regex(r"[0-9]{1,3}(\.[0-9]{0,4})?(|m|k|u|Ki|e[0-9]|E-[1-3])", fullmatch=True),
)
# Half of the lists are plausible, so that both answers come up often.
PLAIN = st.sampled_from([1, "1", "1000m", 2])
LISTS = st.dictionaries(st.sampled_from([GPU, CORE, HCA]), st.one_of(PLAIN, AMOUNTS), max_size=2)


@st.composite
def resources(draw: st.DrawFn) -> dict[str, Any]:
    limits = draw(LISTS)
    kind = draw(st.sampled_from(["limits", "equal", "any", "none"]))
    if kind == "none":
        return {}
    if kind == "limits":
        return {"limits": limits}
    return {"limits": limits, "requests": limits if kind == "equal" else draw(LISTS)}


@st.composite
def manifests(draw: st.DrawFn) -> dict[str, Any]:
    def container(name: str) -> dict[str, Any]:
        return {"name": name, "image": "cuda", "resources": draw(resources())}

    init = [container(f"init-{index}") for index in range(draw(st.integers(0, 2)))]
    for each in init:
        if draw(st.booleans()):
            each["restartPolicy"] = "Always"
    spec: dict[str, Any] = {
        "containers": [container(f"app-{index}") for index in range(draw(st.integers(1, 2)))],
        "initContainers": init,
    }
    if draw(st.integers(0, 9)) == 0:
        spec["resources"] = {"limits": {GPU: 1}}
    if draw(st.booleans()):
        return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": spec}
    labels = {"app": "a"}
    template = {"metadata": {"labels": labels}, "spec": spec}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "a"},
        "spec": {"selector": {"matchLabels": labels}, "template": template},
    }


def test_the_rules_agree_with_the_api_server(api: httpx.Client) -> None:
    answers = {True: 0, False: 0}

    @given(manifests())
    @settings(
        max_examples=int(os.environ.get("RULES_EXAMPLES", "300")),
        deadline=None,
        derandomize=True,
        database=None,
        phases=(Phase.generate, Phase.shrink),
        suppress_health_check=list(HealthCheck),
    )
    def agree(manifest: dict[str, Any]) -> None:
        said = refused(api, manifest)
        found = [v.message for v in evaluate(manifest, Context()) if v.rule.id in ENFORCED]
        answers[bool(said)] += 1
        assert bool(found) == bool(said), f"rules: {found}; API server: {said or 'taken'}"

    agree()
    assert min(answers.values()) >= 50, f"too one-sided to show anything: {answers}"


@pytest.mark.parametrize(
    ("name", "taken"),
    [("alpha.kubernetes.io/nvidia-gpu", True), ("nvidia.com/gpus", True), ("gpu", False)],
)
def test_a_wrong_name_is_not_always_refused(api: httpx.Client, name: str, taken: bool) -> None:
    container = {"name": "a", "image": "a", "resources": {"limits": {name: 1}}}
    spec = {"containers": [container]}
    manifest = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": spec}
    assert (refused(api, manifest) == "") == taken
    assert [v.rule.id for v in evaluate(manifest, Context())] == ["GPU014"]
