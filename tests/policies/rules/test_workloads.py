# ruff: noqa: E501  a table reads best one case a line
"""The advisory rules for workloads that waste GPUs, and the rules for resource names."""

from __future__ import annotations

from typing import Any

import pytest

from gpu_rules.kube.names import is_container_resource, is_extended_resource
from gpu_rules.rules import UNKNOWN, Context
from gpu_rules.rules.resource_names import meant
from gpu_rules.rules.workloads.gpu051_fixed_image import pinned
from tests.policies.rules.cases import (
    CONTEXT,
    CORE,
    GPU,
    MEMORY,
    MIG,
    container,
    gpus,
    paths,
    pod,
    resource,
    spec,
    workload,
)
from tests.policies.rules.messages import judge

SECONDS = {"activeDeadlineSeconds": 60}
JOBS: list[tuple[str, Any, list[str]]] = [
    ("with a deadline", workload("Job", gpus(), **SECONDS), []),
    ("of its pod", workload("Job", gpus(), pod_spec=SECONDS), []),
    ("without", workload("Job", gpus()), ["spec.activeDeadlineSeconds"]),
    ("unknown", workload("Job", gpus(), activeDeadlineSeconds=UNKNOWN), []),
    ("without GPUs", workload("Job", container()), []),
    ("a CronJob", workload("CronJob", gpus()), ["spec.jobTemplate.spec.activeDeadlineSeconds"]),
    ("a CronJob with a deadline", workload("CronJob", gpus(), **SECONDS), []),
    ("a Deployment", workload("Deployment", gpus()), []),
    ("ten tries", workload("Job", gpus(), **SECONDS, backoffLimit=10), []),
    ("eleven tries", workload("Job", gpus(), **SECONDS, backoffLimit=11), ["spec.backoffLimit"]),
    ("unknown tries", workload("Job", gpus(), **SECONDS, backoffLimit=UNKNOWN), []),
]


def job(api: str, kind: str, job_spec: Any) -> Any:
    """Return a job of another program."""
    return {"apiVersion": api, "kind": kind, "metadata": {"name": "train"}, "spec": job_spec}


TEMPLATE = {"spec": spec(gpus())}
VOLCANO, KUBEFLOW, ARGO = "batch.volcano.sh/v1alpha1", "kubeflow.org/v1", "argoproj.io/v1alpha1"


def torch(policy: Any, **fields: Any) -> Any:
    replicas = {"Worker": {"replicas": 2, "template": TEMPLATE}}
    return job(
        KUBEFLOW, "PyTorchJob", {"pytorchReplicaSpecs": replicas, "runPolicy": policy, **fields}
    )


def ray(**fields: Any) -> Any:
    workers = {"workerGroupSpecs": [{"replicas": 1, "template": TEMPLATE}]}
    return job("ray.io/v1", "RayJob", {"rayClusterSpec": workers, **fields})


def trainer(**fields: Any) -> Any:
    asked = {"resourcesPerNode": {"limits": {GPU: 1}}}
    return job("trainer.kubeflow.org/v1alpha1", "TrainJob", {"trainer": asked, **fields})


def job_set(inner: Any, **fields: Any) -> Any:
    jobs = [{"name": "a", "template": {"spec": {"template": TEMPLATE, **inner}}}]
    return job("jobset.x-k8s.io/v1alpha2", "JobSet", {"replicatedJobs": jobs, **fields})


def argo(template: Any = None, **fields: Any) -> Any:
    step = {"name": "a", "container": gpus(), **(template or {})}
    return job(ARGO, "Workflow", {"templates": [step], **fields})


def volcano(task: Any, **fields: Any) -> Any:
    return job(VOLCANO, "Job", {"tasks": [{"template": TEMPLATE, **task}], **fields})


OTHER_JOBS: list[tuple[str, Any, list[str]]] = [
    ("Kubeflow", torch({}), ["spec.runPolicy.activeDeadlineSeconds"]),
    ("Kubeflow, ended", torch(SECONDS), []),
    ("Kubeflow, tries", torch({**SECONDS, "backoffLimit": 100}), ["spec.runPolicy.backoffLimit"]),
    ("Kubeflow before runPolicy", torch({}, **SECONDS, backoffLimit=11), ["spec.backoffLimit"]),
    (
        "MPIJob before runPolicy",
        job("kubeflow.org/v1alpha1", "MPIJob", {"replicas": 2, "template": TEMPLATE}),
        ["spec.activeDeadlineSeconds"],
    ),
    ("Ray", ray(), ["spec.activeDeadlineSeconds"]),
    ("Ray, ended", ray(**SECONDS), []),
    ("Ray, tries", ray(**SECONDS, backoffLimit=11), ["spec.backoffLimit"]),
    (
        "JobSet",
        job_set({}),
        ["spec.replicatedJobs[0].template.spec.template.spec.activeDeadlineSeconds"],
    ),
    ("Trainer, whose runtime may have a deadline", trainer(), []),
    ("JobSet, ended", job_set(SECONDS), []),
    (
        "JobSet, tries",
        job_set({**SECONDS, "backoffLimit": 11}),
        ["spec.replicatedJobs[0].template.spec.backoffLimit"],
    ),
    (
        "JobSet, starts",
        job_set(SECONDS, failurePolicy={"maxRestarts": 11}),
        ["spec.failurePolicy.maxRestarts"],
    ),
    ("Volcano", volcano({}), ["spec.tasks[0].template.spec.activeDeadlineSeconds"]),
    (
        "Volcano, tries",
        volcano({"template": {"spec": {**spec(gpus()), **SECONDS}}}, maxRetry=100),
        ["spec.maxRetry"],
    ),
    ("Volcano, ten", volcano({"template": {"spec": {**spec(gpus()), **SECONDS}}}, maxRetry=10), []),
    ("Argo", argo(), ["spec.activeDeadlineSeconds"]),
    ("Argo, ended", argo(**SECONDS), []),
    ("Argo, a step that ends", argo(SECONDS), []),
    (
        "Argo, tries",
        argo({**SECONDS, "retryStrategy": {"limit": "11"}}),
        ["spec.templates[0].retryStrategy.limit"],
    ),
    ("Argo, few", argo({**SECONDS, "retryStrategy": {"limit": "10"}}), []),
    (
        "a server",
        job(
            "leaderworkerset.x-k8s.io/v1",
            "LeaderWorkerSet",
            {"leaderWorkerTemplate": {"workerTemplate": TEMPLATE}},
        ),
        [],
    ),
]


def test_a_deadline_that_all_pods_of_a_job_lack_is_found_once() -> None:
    replicas = {role: {"template": TEMPLATE} for role in ("Launcher", "Worker")}
    found = judge(job(KUBEFLOW, "MPIJob", {"mpiReplicaSpecs": replicas}), CONTEXT)
    paths_found = [each.path for each in found if each.rule.id == "GPU048"]
    assert paths_found == ["spec.runPolicy.activeDeadlineSeconds"]


@pytest.mark.parametrize(
    ("manifest", "wanted"), [r[1:] for r in OTHER_JOBS], ids=[r[0] for r in OTHER_JOBS]
)
def test_jobs_of_other_programs_end(manifest: Any, wanted: list[str]) -> None:
    assert paths("GPU048", manifest) == wanted


def ray_service(*, groups: int = 1, gpu: int = 1, **fields: Any) -> Any:
    worker = {"replicas": 1, "template": {"spec": spec(gpus(gpu))}}
    cluster = {"rayClusterConfig": {"workerGroupSpecs": [worker] * groups}}
    return job("ray.io/v1", "RayService", {**cluster, **fields})


TYPE = ["spec.upgradeStrategy.type"]


@pytest.mark.parametrize(
    ("manifest", "wanted"),
    [
        (ray_service(), TYPE),
        (ray_service(groups=2), TYPE),
        (ray_service(upgradeStrategy={"type": "NewCluster"}), TYPE),
        (ray_service(upgradeStrategy={"type": "None"}), []),
        (ray_service(upgradeStrategy={"type": "NewClusterWithIncrementalUpgrade"}), []),
        (ray_service(upgradeStrategy=UNKNOWN), []),
        (ray_service(gpu=0), []),
        ({**ray_service(), "apiVersion": "example.com/v1"}, []),
        (job("ray.io/v1", "RayCluster", ray_service()["spec"]["rayClusterConfig"]), []),
    ],
)
def test_an_update_of_a_ray_service_needs_no_second_cluster(
    manifest: Any, wanted: list[str]
) -> None:
    assert paths("GPU026", manifest) == wanted


@pytest.mark.parametrize(("manifest", "wanted"), [r[1:] for r in JOBS], ids=[r[0] for r in JOBS])
def test_jobs_end(manifest: Any, wanted: list[str]) -> None:
    assert paths("GPU048", manifest) == wanted


SHM = {"name": "shm", "emptyDir": {"medium": "Memory"}}
MOUNT = {"name": "shm", "mountPath": "/dev/shm"}
MOUNTED = {"volumeMounts": [MOUNT]}
PLACE = ["spec.containers[0].volumeMounts"]
MEMORIES: list[tuple[str, Any, list[str]]] = [
    ("one GPU", pod(gpus(1)), []),
    ("two GPUs", pod(gpus(2)), PLACE),
    ("an amount that GPU001 refuses", pod(gpus("1500m")), []),
    ("an amount that the API server rounds up", pod(gpus("1999.9999m")), PLACE),
    ("one each", pod(gpus(1), gpus(1)), []),
    ("mounted", pod(gpus(2, **MOUNTED), volumes=[SHM]), []),
    ("mounted with a slash", pod(gpus(2, volumeMounts=[{**MOUNT, "mountPath": "/dev/shm/"}]), volumes=[SHM]), []),
    ("mounted elsewhere", pod(gpus(2, volumeMounts=[{**MOUNT, "mountPath": "/tmp"}]), volumes=[SHM]), PLACE),
    ("mounted beside", pod(gpus(2, volumeMounts=[{**MOUNT, "mountPath": "/dev/shmX"}]), volumes=[SHM]), PLACE),
    ("another volume", pod(gpus(2, **MOUNTED), volumes=[{**SHM, "name": "b"}]), PLACE),
    ("on disk", pod(gpus(2, **MOUNTED), volumes=[{"name": "shm", "emptyDir": {}}]), PLACE),
    ("of unknown medium", pod(gpus(2, **MOUNTED), volumes=[{"name": "shm", "emptyDir": {"medium": UNKNOWN}}]), []),
    ("unknown volumes", pod(gpus(2, **MOUNTED), volumes=UNKNOWN), []),
    ("an unknown volume", pod(gpus(2), volumes=[UNKNOWN]), []),
    ("unknown mounts", pod(gpus(2, volumeMounts=UNKNOWN), volumes=[SHM]), []),
    ("unknown number", pod(gpus(UNKNOWN)), []),
    ("the memory of the node", pod(gpus(2), hostIPC=True), []),
    ("not the memory of the node", pod(gpus(2), hostIPC=False), PLACE),
    ("unknown whether that of the node", pod(gpus(2), hostIPC=UNKNOWN), []),
    ("cores of GPUs", pod(container({CORE: 200, MEMORY: 8})), []),
    ("two MIG devices", pod(container({MIG: 2})), PLACE),
    ("two GPUs of another vendor", pod(container({"metax-tech.com/sgpu": 2})), PLACE),
    ("an ephemeral one", pod(gpus(1), ephemeralContainers=[gpus(2)]), []),
]  # fmt: skip


@pytest.mark.parametrize(
    ("manifest", "wanted"), [r[1:] for r in MEMORIES], ids=[r[0] for r in MEMORIES]
)
def test_shared_memory(manifest: Any, wanted: list[str]) -> None:
    assert paths("GPU049", manifest) == wanted


def sized(size: Any, memory: Any = None) -> Any:
    """Return a pod with two GPUs and a memory volume of a size, in a container with a limit."""
    limits = {GPU: 2} | ({} if memory is None else {"memory": memory})
    volume = {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": size}}
    return pod(container(limits, **MOUNTED), volumes=[volume])


SHM_SIZE = ["spec.volumes[0].emptyDir.sizeLimit"]
SHM_SIZES: list[tuple[str, Any, list[str]]] = [
    ("the default", sized("64Mi"), SHM_SIZE),
    ("less than the least", sized("1023Mi"), SHM_SIZE),
    ("the least", sized("1Gi"), []),
    ("as much as the container", sized("16Gi", "16Gi"), []),
    ("more than the container", sized("64Gi", "16Gi"), SHM_SIZE),
    ("a container without limit", sized("64Gi"), []),
    ("an unknown size", sized(UNKNOWN, "1Gi"), []),
    ("an unknown memory", sized("64Gi", UNKNOWN), []),
    ("no quantity", sized("much"), []),
    ("one GPU", pod(gpus(1, **MOUNTED), volumes=sized("64Mi")["spec"]["volumes"]), []),
]


@pytest.mark.promise(
    "Shared memory for several GPUs has at least 1Gi, and at most the container's memory."
)
@pytest.mark.parametrize(
    ("manifest", "wanted"), [r[1:] for r in SHM_SIZES], ids=[r[0] for r in SHM_SIZES]
)
def test_shared_memory_has_a_size_that_fits(manifest: Any, wanted: list[str]) -> None:
    assert paths("GPU049", manifest) == wanted


def probed(startup: Any = None, **probe: Any) -> Any:
    return pod(
        gpus(1, livenessProbe=probe, **({} if startup is None else {"startupProbe": startup}))
    )


PROBE = ["spec.containers[0].livenessProbe"]
PROBES: list[tuple[str, Any, list[str]]] = [
    ("no probe", pod(gpus(1)), []),
    ("the defaults", probed(httpGet={"port": 80}), PROBE),
    ("almost enough", probed(initialDelaySeconds=89), PROBE),
    ("enough", probed(initialDelaySeconds=90), []),
    ("many failures", probed(periodSeconds=20, failureThreshold=6), []),
    ("a period of 0, so the default", probed(periodSeconds=0, failureThreshold=12), []),
    ("a startup probe", probed({"httpGet": {"port": 80}}), []),
    ("an unknown startup probe", probed(UNKNOWN), []),
    ("an unknown delay", probed(initialDelaySeconds=UNKNOWN), []),
    ("an unknown probe", pod(gpus(1, livenessProbe=UNKNOWN)), []),
    ("a notebook", pod(gpus(1, livenessProbe={}, image="jupyter/base-notebook:1")), []),
    ("a server of another name", pod(gpus(1, livenessProbe={}, image="vllm:1")), PROBE),
    ("an unknown image", pod(gpus(1, livenessProbe={}, image=UNKNOWN)), []),
    ("without GPUs", pod(container(livenessProbe={"periodSeconds": 1})), []),
]  # fmt: skip


@pytest.mark.parametrize(
    ("manifest", "wanted"), [r[1:] for r in PROBES], ids=[r[0] for r in PROBES]
)
def test_a_probe_leaves_time_to_load_a_model(manifest: Any, wanted: list[str]) -> None:
    assert paths("GPU082", manifest) == wanted


@pytest.mark.parametrize(
    ("value", "is_off"),
    [("1", True), ("true", True), ("T", True), ("0", False), ("false", False), (UNKNOWN, False)],
)
def test_the_check_of_the_driver_stays_on(value: Any, is_off: bool) -> None:
    env = [{"name": "A", "value": "1"}, {"name": "NVIDIA_DISABLE_REQUIRE", "value": value}]
    wanted = ["spec.containers[0].env[1]"] if is_off else []
    assert paths("GPU083", pod(gpus(1, env=env))) == wanted
    assert paths("GPU083", pod(container(env=env))) == []


def cluster_queue(name: str, quota: Any, kind: str = "ClusterQueue") -> Any:
    flavors = [{"name": "a100", "resources": [{"name": name, "nominalQuota": quota}]}]
    groups = [{"coveredResources": [name], "flavors": flavors}]
    return resource(kind, "kueue.x-k8s.io/v1beta1", spec={"resourceGroups": groups})


def volcano_queue(**spec: Any) -> Any:
    return resource("Queue", "scheduling.volcano.sh/v1beta1", spec=spec)


QUOTA = "spec.resourceGroups[0].flavors[0].resources[0]"
QUEUES: list[tuple[str, Any, list[str]]] = [
    ("a GPU", cluster_queue(GPU, 8), []),
    ("a wrong name", cluster_queue("nvidia.com/gpus", 8), [f"{QUOTA}[nvidia.com/gpus]"]),
    ("half a GPU", cluster_queue(GPU, "1500m"), [f"{QUOTA}[{GPU}]"]),
    ("half a GPU of a cohort", cluster_queue(GPU, "1500m", "Cohort"), [f"{QUOTA}[{GPU}]"]),
    ("an unknown quota", cluster_queue(GPU, UNKNOWN), []),
    ("half a processor", cluster_queue("cpu", "1500m"), []),
    ("of another vendor", cluster_queue("example.com/device", "1500m"), []),
    ("a flavor", cluster_queue("nvidia.com/gpus", 8, "ResourceFlavor"), []),
    ("Volcano", volcano_queue(capability={GPU: 4}), []),
    ("Volcano, wrong", volcano_queue(capability={"nvidia.com/gpus": 4}), ["spec.capability[nvidia.com/gpus]"]),
    ("Volcano, guarantee", volcano_queue(guarantee={"resource": {"nvidia.com/gpus": 4}}), ["spec.guarantee.resource[nvidia.com/gpus]"]),
]  # fmt: skip


@pytest.mark.parametrize(
    ("manifest", "wanted"), [r[1:] for r in QUEUES], ids=[r[0] for r in QUEUES]
)
def test_queues_name_what_nodes_advertise(manifest: Any, wanted: list[str]) -> None:
    assert paths("GPU084", manifest) == wanted


GPU_COUNT = {"key": "karpenter.k8s.aws/instance-gpu-count", "operator": "Exists"}
TAINTED = {"taints": [{"key": GPU, "effect": "NoSchedule"}]}
LIMITED = {"limits": {GPU: 16}}
NO_TAINT, NO_LIMIT = "spec.template.spec.taints", "spec.limits"


def node_pool(requirements: Any, node: Any, limits: Any, api: str = "karpenter.sh/v1") -> Any:
    template = {"spec": {"requirements": requirements, **node}}
    return resource("NodePool", api, spec={"template": template, **limits})


NODE_POOLS: list[tuple[str, Any, list[str]]] = [
    ("both", node_pool([GPU_COUNT], TAINTED, LIMITED), []),
    ("neither", node_pool([GPU_COUNT], {}, {}), [NO_TAINT, NO_LIMIT]),
    ("no taint", node_pool([GPU_COUNT], {"taints": []}, LIMITED), [NO_TAINT]),
    ("no limit", node_pool([GPU_COUNT], TAINTED, {"limits": {}}), [NO_LIMIT]),
    ("unknown", node_pool([GPU_COUNT], {"taints": UNKNOWN}, {"limits": UNKNOWN}), []),
    ("without GPUs", node_pool([{**GPU_COUNT, "operator": "DoesNotExist"}], {}, {}), []),
    ("of processors", node_pool([{"key": "kubernetes.io/arch", "operator": "Exists"}], {}, {}), []),
    ("of another program", node_pool([GPU_COUNT], {}, {}, "example.org/v1"), []),
]


@pytest.mark.parametrize(
    ("manifest", "wanted"), [r[1:] for r in NODE_POOLS], ids=[r[0] for r in NODE_POOLS]
)
def test_node_pools_for_gpus_are_fenced(manifest: Any, wanted: list[str]) -> None:
    assert paths("GPU085", manifest) == wanted


R, L = "spec.containers[0].resources.requests", "spec.containers[0].resources.limits"
SIZES: list[tuple[str, Any, Any, list[str]]] = [
    ("both", {"memory": "1Gi"}, {"cpu": 1, "memory": "1Gi"}, []),
    ("none", {}, {}, [f"{R}[cpu]"]),
    ("limits count", {"memory": "1Gi", "cpu": 1}, {}, []),
    ("no cpu", {"memory": "1Gi"}, {"memory": "1Gi"}, [f"{R}[cpu]"]),
    ("memory beyond the request", {"memory": "2Gi"}, {"cpu": 1, "memory": "1Gi"}, [f"{L}[memory]"]),
    ("memory without limit", {}, {"cpu": 1, "memory": "1Gi"}, [f"{L}[memory]"]),
    ("the same otherwise written", {"memory": "1024Mi"}, {"cpu": 1, "memory": "1Gi"}, []),
    ("an unknown limit", {"memory": UNKNOWN}, {"cpu": 1, "memory": "1Gi"}, []),
    ("an unknown request", {"memory": "1Gi"}, {"cpu": 1, "memory": UNKNOWN}, []),
]


@pytest.mark.parametrize(
    ("limits", "requests", "wanted"), [r[1:] for r in SIZES], ids=[r[0] for r in SIZES]
)
def test_cpu_and_memory(limits: Any, requests: Any, wanted: list[str]) -> None:
    assert paths("GPU050", pod(container({GPU: 1, **limits}, requests))) == wanted
    assert paths("GPU050", pod(container(limits, requests))) == [], "it asks for no GPU"


P = "spec.resources.limits[memory]"
WHOLE: list[tuple[str, Any, list[str]]] = [
    ("both", {"limits": {"cpu": 1, "memory": "1Gi"}}, []),
    ("both asked for", {"requests": {"cpu": 1, "memory": "1Gi"}}, [P]),
    ("memory beyond", {"requests": {"memory": "1Gi"}, "limits": {"cpu": 1, "memory": "2Gi"}}, [P]),
    ("memory alone", {"limits": {"memory": "1Gi"}}, [f"{R}[cpu]"]),
    ("cpu alone", {"requests": {"cpu": 1}}, [f"{R}[memory]"]),
    ("unknown", {"requests": UNKNOWN}, []),
    ("all unknown", UNKNOWN, []),
]


SHARED_SIZES: list[tuple[str, Any, Any, bool]] = [
    ("cpu alone", {"limits": {"cpu": 4}}, {"memory": "1Gi"}, False),
    ("less than the limit", {"limits": {"memory": "2Gi", "cpu": 1}}, {"memory": "1Gi"}, True),
    ("all of the limit", {"limits": {"memory": "1Gi", "cpu": 1}}, {"memory": "1Gi"}, False),
    ("a limit alone", {"limits": {"memory": "1Gi", "cpu": 1}}, {}, False),
    ("a request alone", {"requests": {"memory": "2Gi", "cpu": 1}}, {"memory": "1Gi"}, False),
    ("an unknown part", {"limits": {"memory": "2Gi", "cpu": 1}}, {"memory": UNKNOWN}, False),
]


@pytest.mark.parametrize(
    ("whole", "own", "found"), [c[1:] for c in SHARED_SIZES], ids=[c[0] for c in SHARED_SIZES]
)
def test_a_pod_requests_what_its_containers_request_if_it_has_a_limit(
    whole: Any, own: Any, found: bool
) -> None:
    manifest = pod(container({GPU: 1, **own}))
    manifest["spec"]["resources"] = whole
    assert ("GPU050" in {v.rule.id for v in judge(manifest, Context())}) == found


@pytest.mark.parametrize(("resources", "wanted"), [r[1:] for r in WHOLE], ids=[r[0] for r in WHOLE])
def test_what_a_pod_asks_for_as_a_whole_counts(resources: Any, wanted: list[str]) -> None:
    manifest = pod(container({GPU: 1}))
    manifest["spec"]["resources"] = resources
    assert paths("GPU050", manifest) == wanted


@pytest.mark.parametrize(("limits", "found"), [({}, "none"), ({"memory": "2Gi"}, "2Gi")])
def test_a_limit_of_memory_is_told_as_it_is(limits: Any, found: str) -> None:
    manifest = pod(container({GPU: 1, **limits}, {"cpu": 1, "memory": "1Gi"}))
    (violation,) = [
        violation for violation in judge(manifest, CONTEXT) if violation.rule.id == "GPU050"
    ]
    assert violation.found == found


def test_unknown_resources_are_not_missing() -> None:
    assert paths("GPU050", pod(container({GPU: 1}, UNKNOWN))) == []
    assert paths("GPU050", pod(container(UNKNOWN, {GPU: 1}))) == []
    behind = pod(container({GPU: 1}, UNKNOWN), gpus(1))
    requests = R.replace("[0]", "[1]")
    assert paths("GPU050", behind) == [f"{requests}[cpu]"]


def test_advice_on_sizes_is_given_once_for_all_containers_of_an_object() -> None:
    (violation,) = [
        violation
        for violation in judge(pod(gpus(), gpus(), gpus()), CONTEXT)
        if violation.rule.id == "GPU050"
    ]
    assert (
        violation.found == "no request of cpu and memory, and 2 more such findings in this object"
    )


@pytest.mark.parametrize(
    ("image", "fixed"),
    [
        ("cuda:13.0", True),
        ("registry:5000/cuda:13.0", True),
        ("registry:5000/cuda", False),
        ("cuda", False),
        ("cuda:latest", False),
        *((f"cuda:{tag}", False) for tag in ("main", "master", "nightly", "dev", "edge", "stable")),
        *((f"cuda:{tag}", False) for tag in ("latest-gpu", "main-cuda", "nightly_gpu")),
        *((f"cuda:{tag}", True) for tag in ("nightly-20260101", "main-a1b2c3d", "latest-13.0")),
        *((f"cuda:{tag}", True) for tag in ("v1.2-dev", "maintained-1", "developer", "mainline")),
        ("registry:5000/a/cuda:main@sha256:abc", True),
        ("cuda:", False),
        ("cuda@sha256:abc", True),
        ("cuda:latest@sha256:abc", True),
        ("cuda@md5:abc", False),
    ],
)
def test_images(image: str, fixed: bool) -> None:
    assert pinned(image) == fixed
    wanted = [] if fixed else ["spec.containers[0].image"]
    assert paths("GPU051", pod(gpus(image=image))) == wanted
    assert paths("GPU051", pod(container(image=image))) == []
    assert paths("GPU051", pod(gpus(0, image=image))) == []
    assert paths("GPU051", pod(gpus("1m", image=image))) == wanted
    second = [place.replace("[0]", "[1]") for place in wanted]
    assert paths("GPU051", pod(gpus(image=image), gpus(image=image))) == wanted + second


def test_no_image_is_not_a_floating_one() -> None:
    assert paths("GPU051", pod(gpus(image=UNKNOWN))) == paths("GPU051", pod(gpus(image=""))) == []


NAMES: list[tuple[str, bool, str | None]] = [
    # Columns: name, whether the API server accepts it, the name that was probably meant.
    ("cpu", True, None),
    ("memory", True, None),
    ("ephemeral-storage", True, None),
    ("hugepages-2Mi", True, None),
    ("storage", False, None),
    ("gpu", False, GPU),
    ("GPUs", False, GPU),
    ("nvidia", False, GPU),
    ("nvidia-gpu", False, GPU),
    ("nvidia.com", False, GPU),
    ("", False, None),
    (GPU, True, None),
    ("nvidia.com/gpus", True, GPU),
    ("nvidia.com/GPU", True, GPU),
    ("Nvidia.com/gpu", False, GPU),
    ("nvida.com/gpu", True, GPU),
    ("nvidia.com.gpu", False, GPU),
    ("nvidia.com//gpu", False, GPU),
    ("nvidia.com/gpu-shared", True, "nvidia.com/gpu.shared"),
    ("nvidia.com/gpu_shared", True, "nvidia.com/gpu.shared"),
    ("tencent.com/vcuda-cores", True, CORE),
    ("tencent.com/vcuda-mem", True, MEMORY),
    ("tencen.com/vcuda-core", True, CORE),
    ("requests.nvidia.com/gpu", False, GPU),
    ("limits.nvidia.com/gpu", True, GPU),
    ("requests.example.com/a", False, None),
    ("limits.example.com/a", True, None),
    ("alpha.kubernetes.io/nvidia-gpu", True, GPU),
    ("my.kubernetes.io/a", True, None),
    ("requests.kubernetes.io/a", True, None),
    ("nvidia.com/mig-1g.10gb", True, None),
    ("nvidia.com/mig-1c.3g.40gb", True, None),
    ("nvidia.com/mig-1g.10gb.me", True, None),
    ("nvidia.com/mig-1g10gb", True, "nvidia.com/mig-<slices>g.<memory>gb"),
    ("nvidia.com/mig-1g.10GB", True, "nvidia.com/mig-<slices>g.<memory>gb"),
    ("nvidia.com/", False, None),
    ("/gpu", False, None),
    ("a/b/c", False, None),
    ("example.com/-a", False, None),
    ("example.com/a_b.c-d", True, None),
    ("Example.com/a", False, None),
    ("example..com/a", False, None),
    ("example.com/" + "a" * 63, True, None),
    ("example.com/" + "a" * 64, False, None),
    ("a" * 244 + "/a", True, None),
    ("a" * 245 + "/a", False, None),
    ("a" * 254 + "/a", False, None),
]


@pytest.mark.parametrize(("name", "taken", "right"), NAMES)
def test_names(name: str, taken: bool, right: str | None) -> None:
    assert is_container_resource(name) == taken
    assert meant(name, Context()) == right
    listed = [
        f"spec.containers[0].resources.{part}[{name[:80]}]" for part in ("limits", "requests")
    ]
    both = pod(container({name: 1}, {name: 1}))
    assert paths("GPU027", both) == ([] if taken else listed)
    assert paths("GPU027", pod(container(), initContainers=[container({name: 1})])) == (
        [] if taken else [listed[0].replace("containers", "initContainers")]
    )


@pytest.mark.parametrize("part", ["limits", "requests"])
def test_a_wrong_name_is_found_where_it_stands(part: str) -> None:
    manifest = pod(container(**{part: {"nvidia.com/gpus": 1}}))
    place = f"spec.containers[0].resources.{part}[nvidia.com/gpus]"
    assert paths("GPU014", manifest) == [place]


def test_names_of_ephemeral_containers_are_another_rules_concern() -> None:
    assert paths("GPU027", pod(gpus(), ephemeralContainers=[container({"gpu": 1})])) == []


def test_a_name_that_the_cluster_advertises_is_right() -> None:
    context = Context(resource_names=frozenset({"nvidia.com/gpus", "nvidia.com/mig-big"}))
    assert meant("nvidia.com/gpus", context) is meant("nvidia.com/mig-big", context) is None


def test_extended_names() -> None:
    assert is_extended_resource("rdma/hca")
    assert not is_extended_resource("requests.rdma/hca")
    assert not is_extended_resource("x.kubernetes.io/hca")
    assert not is_extended_resource("cpu")


@pytest.mark.parametrize(
    ("amount", "refused"), [(0, False), (100, False), (101, True), (UNKNOWN, False), ("x", False)]
)
def test_a_percentage_of_memory(amount: Any, refused: bool) -> None:
    name = "nvidia.com/gpumem-percentage"
    wanted = [f"spec.containers[0].resources.limits[{name}]"] if refused else []
    assert paths("GPU061", pod(container({GPU: 1, name: amount})), CONTEXT) == wanted
