"""Manifests that people use unchanged break no mandatory rule in the fitting mode of the platform.

The samples are rewritten from those of NVIDIA's device plugin, its operator, the CUDA samples and
TKEStack's guides. If `GPU_SAMPLES` names a folder with copies of their repositories, the originals
are checked too; the originals are not part of this project.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpu_cluster.desired.resolve import resolve
from gpu_cluster.loading.stack_file import load_stack_file
from gpu_cluster.settings.cluster import Cluster
from gpu_cluster.validation.job import job
from gpu_rules.rules import Context, NodeTaint, PoolFacts, Severity, evaluate, evaluate_stack
from tests.resolved import platform_of

ROOT = Path(__file__).parents[3]
BY_VALUE = NodeTaint("nvidia.com/gpu", "present")
BARE = NodeTaint("nvidia.com/gpu")


def context(platform: str, *taints: NodeTaint) -> Context:
    # Namespaces in the operator's assets, in its validator's manifests and in its tests.
    filled = {"FILLED BY THE OPERATOR", "FILLED_BY_THE_VALIDATOR", "test-operator"}
    software = {"gpu-operator", "nvidia-device-plugin", "nvidia-gpu-operator"}
    own = frozenset(software | filled)
    pools = (PoolFacts("gpu", 8, taints),)
    return Context(pools=pools, platform=platform, infrastructure_namespaces=own)


TAINTED = context("device-plugin", BARE)
BY_OPERATOR = context("gpu-operator", BARE)
OPEN = context("device-plugin")
VCUDA = context("gpu-manager")

POD = """
apiVersion: v1
kind: Pod
metadata: {{name: sample}}
spec:
  restartPolicy: Never
  containers:
    - name: sample
      image: {image}
      resources: {{limits: {limits}}}
  tolerations: {tolerations}
"""
EXISTS = "[{key: nvidia.com/gpu, operator: Exists, effect: NoSchedule}]"
CUDA = "nvcr.io/nvidia/k8s/cuda-sample:vectoradd-cuda12.5.0"


def pod(limits: str, tolerations: str = EXISTS, image: str = CUDA) -> str:
    return POD.format(limits=limits, tolerations=tolerations, image=image)


NOTEBOOK = """
apiVersion: v1
kind: List
items:
  - apiVersion: v1
    kind: Service
    metadata: {name: notebook}
    spec: {type: NodePort, ports: [{port: 80, targetPort: 8888}], selector: {app: notebook}}
  - apiVersion: v1
    kind: Pod
    metadata: {name: notebook, labels: {app: notebook}}
    spec:
      securityContext: {fsGroup: 0}
      containers:
        - name: notebook
          image: tensorflow/tensorflow:2.19.0-gpu-jupyter
          resources: {limits: {nvidia.com/gpu: 1}}
          ports: [{containerPort: 8888}]
"""
SHARED = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: verify, labels: {app: verify}}
spec:
  replicas: 5
  selector: {matchLabels: {app: verify}}
  template:
    metadata: {labels: {app: verify}}
    spec:
      tolerations: [{key: nvidia.com/gpu, operator: Exists, effect: NoSchedule}]
      hostPID: true
      containers:
        - name: vectoradd
          image: nvcr.io/nvidia/k8s/cuda-sample:vectoradd-cuda12.5.0
          command: [bash, -c, "while true; do /cuda-samples/vectorAdd; done"]
          resources: {limits: {nvidia.com/gpu: 1}}
"""
PLUGIN = """
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: nvidia-device-plugin-daemonset, namespace: kube-system}
spec:
  selector: {matchLabels: {name: plugin}}
  updateStrategy: {type: RollingUpdate}
  template:
    metadata: {labels: {name: plugin}}
    spec:
      tolerations: [{key: nvidia.com/gpu, operator: Exists, effect: NoSchedule}]
      priorityClassName: system-node-critical
      containers:
        - name: plugin
          image: nvcr.io/nvidia/k8s-device-plugin:v0.20.0
          env: [{name: FAIL_ON_INIT_ERROR, value: "false"}]
          securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}
          volumeMounts: [{name: plugins, mountPath: /var/lib/kubelet/device-plugins}]
      volumes: [{name: plugins, hostPath: {path: /var/lib/kubelet/device-plugins}}]
"""
SETTINGS = """
apiVersion: v1
kind: ConfigMap
metadata: {name: nvidia-plugin-configs, namespace: nvidia-device-plugin}
data:
  config: |
    version: v1
    flags:
      migStrategy: "none"
      failOnInitError: true
      plugin: {passDeviceSpecs: false, deviceListStrategy: "envvar", deviceIDStrategy: "uuid"}
"""
PART = pod("{tencent.com/vcuda-core: 30, tencent.com/vcuda-memory: 20}", "[]", "nginx")
SIZE, IMAGE, SHM = "GPU050", "GPU051", "GPU049"

# Per sample: its manifest, the cluster for which it was written, and the ids of the
# rules that it breaks.
SAMPLES: dict[str, tuple[str, Context, set[str]]] = {
    "CUDA vector addition": (pod("{nvidia.com/gpu: 1}"), TAINTED, {SIZE}),
    "with the operator's taint": (pod("{nvidia.com/gpu: 1}"), BY_OPERATOR, {SIZE}),
    "on nodes without taints": (pod("{nvidia.com/gpu: 1}", "[]"), OPEN, {SIZE}),
    "n-body on two GPUs": (pod("{nvidia.com/gpu: 2}"), TAINTED, {SIZE, SHM}),
    "a MIG device": (pod("{nvidia.com/mig-1g.5gb: 1}"), TAINTED, {SIZE}),
    "a shared GPU": (pod("{nvidia.com/gpu.shared: 1}"), TAINTED, {SIZE}),
    "a notebook": (NOTEBOOK, OPEN, {SIZE}),
    "time-slicing verified by five pods": (SHARED, TAINTED, {SIZE, "GPU067"}),  # with hostPID
    "the device plugin itself": (PLUGIN, TAINTED, set()),
    "its configuration": (SETTINGS, TAINTED, set()),
    "a pod of the first document": (pod('{nvidia.com/gpu: "1"}'), TAINTED, {SIZE}),
    "a part of a GPU, second document": (PART, VCUDA, {SIZE, IMAGE}),
    "a whole GPU, second document": (pod("{nvidia.com/gpu: 1}", "[]"), OPEN, {SIZE}),
    "a pod of the third document": (
        pod("{nvidia.com/gpu: 1}", "[{key: nvidia.com/gpu, effect: NoSchedule}]"), TAINTED, {SIZE},
    ),
}  # fmt: skip


@pytest.mark.parametrize(("text", "known", "advice"), SAMPLES.values(), ids=SAMPLES)
def test_a_sample_breaks_no_mandatory_rule_but_that_of_its_host_namespace(
    text: str, known: Context, advice: set[str]
) -> None:
    violations = evaluate(yaml.safe_load(text), known)
    assert {
        violation.rule.id for violation in violations if violation.severity is Severity.MANDATORY
    } <= {"GPU067"}
    assert {violation.rule.id for violation in violations} == advice


def test_a_toleration_without_operator_does_not_fit_a_taint_with_a_value() -> None:
    manifest: Any = yaml.safe_load(SAMPLES["a pod of the third document"][0])
    violations = evaluate(manifest, context("device-plugin", BY_VALUE))
    assert "GPU004" in [violation.rule.id for violation in violations]


@pytest.mark.parametrize("name", ["dev", "staging", "prod"])
def test_what_the_stacks_deploy_breaks_no_mandatory_rule(name: str) -> None:
    cluster = load_stack_file(ROOT / f"Pulumi.{name}.yaml")
    known, own = resolve(cluster, "dev").rules, cluster.validation.namespace
    platform = platform_of(cluster)
    manifests: list[dict[str, Any]] = [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": own}},
        {
            "apiVersion": "helm.sh/v3",
            "kind": "Release",
            "chart": platform.chart,
            "version": platform.version,
            "repositoryOpts": {"repo": "https://helm.example.com"},
            "values": platform.values(),
        },
    ]
    manifests += validating(cluster)
    violations = [violation for manifest in manifests for violation in evaluate(manifest, known)]
    violations += evaluate_stack(manifests, known)
    assert [
        violation.message for violation in violations if violation.severity is Severity.MANDATORY
    ] == []


def validating(cluster: Cluster) -> list[dict[str, Any]]:
    """Return the validation Job of the first node of each GPU pool."""
    made = []
    for pool in resolve(cluster, "dev").validation.pools:
        asked = {offer.resource: offer.devices for offer in pool.offers}
        node = {"metadata": {"name": next(iter(pool.nodes or ()), "gpu-1"), "uid": "any"}}
        validation = job(pool, node, asked)
        validation["metadata"]["namespace"] = pool.namespace
        made.append(validation)
    return made


@pytest.mark.parametrize("name", ["dev", "staging", "prod"])
def test_our_own_validation_breaks_no_rule_at_all(name: str) -> None:
    cluster = load_stack_file(ROOT / f"Pulumi.{name}.yaml")
    jobs = validating(cluster)
    assert jobs
    assert [
        violation.message
        for job in jobs
        for violation in evaluate(job, resolve(cluster, "dev").rules)
    ] == []


# Samples of other projects that break a mandatory rule on every kind of cluster.
WRONG = {
    # The sample uses the resource name of Kubernetes 1.3 to 1.10.
    "tkestack+gpu-admission/test/test_deploy.yaml": {"GPU014"},
    # The validator fills in the name of the resource.
    "NVIDIA+gpu-operator/validator/manifests/plugin-workload-validation.yaml": {"GPU027"},
}


def originals() -> list[Path]:
    folder = os.environ.get("GPU_SAMPLES")
    return sorted(Path(folder).rglob("*.y*ml")) if folder else []


@pytest.mark.skipif(not originals(), reason="GPU_SAMPLES names no folder with the originals")
def test_the_originals_break_no_mandatory_rule_in_one_mode() -> None:
    judged, broken = 0, {}
    for path in originals():
        try:
            documents = [d for d in yaml.safe_load_all(path.read_text()) if isinstance(d, dict)]
        except (yaml.YAMLError, UnicodeDecodeError):
            # Templates of charts are not valid YAML before they are rendered.
            continue
        judged += bool(documents)
        modes = [VCUDA] if "tkestack" in str(path) else [TAINTED, BY_OPERATOR, OPEN]
        said = [mandatory(documents, mode) for mode in modes]
        if all(said):
            name = str(path.relative_to(os.environ["GPU_SAMPLES"]))
            broken[name] = min(said, key=len)
    assert broken == WRONG
    assert judged >= 50


def mandatory(documents: list[dict[str, Any]], known: Context) -> set[str]:
    violations = [violation for document in documents for violation in evaluate(document, known)]
    violations += evaluate_stack(documents, known)
    return {
        violation.rule.id for violation in violations if violation.severity is Severity.MANDATORY
    }
