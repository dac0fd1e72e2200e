"""Kwok Stages of simulated nodes and pods. All functions are pure.

The simulator's controller sets the pod annotation `marks.OUTCOME`, and kwok then changes the pod's
status. Pods of the device plugin stay Pending until the controller decides. All other pods run
immediately; pods with restartPolicy Never or OnFailure, such as pods of Jobs, then complete. The
controller itself writes the end of a validation pod because its containers end at different times.
Semantics of Stages: kwok v0.8.0, pkg/utils/expression/selector.go.
"""

from __future__ import annotations

from typing import Any

from gpu_cluster_lab.simulator import marks

Json = dict[str, Any]

#: Labels by which device plugin pods are recognised: those of NVIDIA's chart and of the GPU
#: Operator. These pods wait for the simulator's controller. In the chart, the pods of GPU feature
#: discovery and the MPS daemon have the same labels (NVIDIA/k8s-device-plugin v0.20.0,
#: deployments/helm/nvidia-device-plugin/templates/_helpers.tpl).
PLUGIN_NAME = "nvidia-device-plugin"
OPERATOR_PLUGIN_APP = "nvidia-device-plugin-daemonset"
#: Label `name` of the device plugin's pods in its published manifest (NVIDIA/k8s-device-plugin
#: v0.17.1, deployments/static/nvidia-device-plugin.yml).
STATIC_PLUGIN = "nvidia-device-plugin-ds"

#: Labels of other pods that wait for the simulator's controller: those of gpu-manager, the DRA
#: driver and the driver installer.
MANAGER_KEY, MANAGER = "name", "gpu-manager-ds"
DRA_KEY, DRA = "dra-driver-nvidia-gpu-component", "kubelet-plugin"
INSTALLER = "gpu-cluster/driver-installer"
#: Label of the pods of HAMi's device plugin, which wait as those of NVIDIA's do
#: (Project-HAMi/HAMi v2.10.0, charts/hami/templates/device-plugin/daemonsetnvidia.yaml).
HAMI_KEY, HAMI = "app.kubernetes.io/component", "hami-device-plugin"

RUNNING = "running"
CRASHING = "crashing"
WITHOUT_SANDBOX = "without sandbox"

_OUTCOME = f'.metadata.annotations["{marks.OUTCOME}"]'
_MESSAGE = f'.metadata.annotations["{marks.MESSAGE}"]'
_VALIDATION = f'.metadata.labels["{marks.VALIDATION}"]'
#: Whether a pod has finalizers, and whether it has ended.
_FINALIZERS = "(.metadata.finalizers // []) != []"
_ENDED = '(.status.phase // "") as $p | $p == "Succeeded" or $p == "Failed"'
#: Why the first container waits; empty if it does not.
_WAITING = '(.status.containerStatuses // [])[0].state.waiting.reason // ""'
_READY = '.status.conditions.[] | select( .type == "Ready" ) | .status'

NODE_READY = """
{{ $now := Now }}
{{ $since := or .metadata.creationTimestamp $now }}
conditions:
{{ range NodeConditions }}
- type: {{ .type | Quote }}
  status: {{ .status | Quote }}
  reason: {{ .reason | Quote }}
  message: {{ .message | Quote }}
  lastHeartbeatTime: {{ $now | Quote }}
  lastTransitionTime: {{ $since | Quote }}
{{ end }}
addresses:
{{ with NodeIP }}
- type: InternalIP
  address: {{ . | Quote }}
{{ end }}
- type: Hostname
  address: {{ NodeName | Quote }}
daemonEndpoints:
  kubeletEndpoint:
    Port: LOG_PORT
"""

NODE_INFO = """
{{ $version := printf "kwok-%s" Version }}
nodeInfo:
  architecture: amd64
  operatingSystem: linux
  osImage: simulated
  kernelVersion: {{ $version }}
  kubeletVersion: {{ $version }}
  kubeProxyVersion: {{ $version }}
  containerRuntimeVersion: {{ $version }}
  bootID: {{ .metadata.uid | Quote }}
  machineID: ""
  systemUUID: ""
phase: Running
"""

POD_RUNS = """
{{ $now := Now }}
phase: Running
message: ""
startTime: {{ or .status.startTime $now | Quote }}
conditions:
{{ range $type := list "PodReadyToStartContainers" "Initialized" "Ready" "ContainersReady" }}
- type: {{ $type | Quote }}
  status: "True"
  lastTransitionTime: {{ $now | Quote }}
{{ end }}
{{ range .spec.readinessGates }}
- type: {{ .conditionType | Quote }}
  status: "True"
  lastTransitionTime: {{ $now | Quote }}
{{ end }}
initContainerStatuses:
{{ range .spec.initContainers }}
- name: {{ .name | Quote }}
  image: {{ .image | Quote }}
  ready: true
  restartCount: 0
  {{ if eq .restartPolicy "Always" }}
  started: true
  state:
    running:
      startedAt: {{ $now | Quote }}
  {{ else }}
  state:
    terminated:
      exitCode: 0
      reason: Completed
      startedAt: {{ $now | Quote }}
      finishedAt: {{ $now | Quote }}
  {{ end }}
{{ end }}
containerStatuses:
{{ range .spec.containers }}
- name: {{ .name | Quote }}
  image: {{ .image | Quote }}
  ready: true
  started: true
  restartCount: 0
  state:
    running:
      startedAt: {{ $now | Quote }}
{{ end }}
{{ if not .status.podIP }}
{{ $network := or .spec.hostNetwork false }}
{{ with NodeIPsWith .spec.nodeName }}
hostIP: {{ index . 0 | Quote }}
hostIPs:
{{ range . }}
- ip: {{ . | Quote }}
{{ end }}
{{ end }}
{{ with PodIPsWith .spec.nodeName $network .metadata.uid .metadata.name .metadata.namespace }}
podIP: {{ index . 0 | Quote }}
podIPs:
{{ range . }}
- ip: {{ . | Quote }}
{{ end }}
{{ end }}
{{ end }}
"""

_ENDS = """
{{{{ $now := Now }}}}
phase: {phase}
conditions:
- type: Ready
  status: "False"
  reason: {condition}
  lastTransitionTime: {{{{ $now | Quote }}}}
- type: ContainersReady
  status: "False"
  reason: {condition}
  lastTransitionTime: {{{{ $now | Quote }}}}
containerStatuses:
{{{{ range .spec.containers }}}}
- name: {{{{ .name | Quote }}}}
  image: {{{{ .image | Quote }}}}
  ready: false
  started: false
  restartCount: 0
  state:
    terminated:
      exitCode: {code}
      reason: {reason}
      startedAt: {{{{ $now | Quote }}}}
      finishedAt: {{{{ $now | Quote }}}}
{{{{ end }}}}
"""

#: Pod status for a container that crashes repeatedly, as the kubelet reports it (kubernetes v1.34
#: pkg/kubelet/kuberuntime/kuberuntime_manager.go, doBackOff). The container's last output is in its
#: last state, as with terminationMessagePolicy FallbackToLogsOnError.
POD_CRASHES = f"""
{{{{ $now := Now }}}}
{{{{ $message := index .metadata.annotations "{marks.MESSAGE}" }}}}
phase: Running
message: {{{{ $message | Quote }}}}
conditions:
- type: Ready
  status: "False"
  reason: ContainersNotReady
  lastTransitionTime: {{{{ $now | Quote }}}}
- type: ContainersReady
  status: "False"
  reason: ContainersNotReady
  lastTransitionTime: {{{{ $now | Quote }}}}
containerStatuses:
{{{{ range .spec.containers }}}}
- name: {{{{ .name | Quote }}}}
  image: {{{{ .image | Quote }}}}
  ready: false
  started: false
  restartCount: 5
  state:
    waiting:
      reason: CrashLoopBackOff
      message: {{{{ printf "back-off 5m0s restarting failed container=%s" .name | Quote }}}}
  lastState:
    terminated:
      exitCode: 1
      reason: Error
      message: {{{{ $message | Quote }}}}
      startedAt: {{{{ $now | Quote }}}}
      finishedAt: {{{{ $now | Quote }}}}
{{{{ end }}}}
"""


#: Pod status while the container engine can't create the pod's sandbox. The reason is only
#: in an Event of the kubelet (kubernetes v1.34 pkg/kubelet/kubelet_pods.go,
#: convertToAPIContainerStatuses).
POD_WITHOUT_SANDBOX = """
{{ $now := Now }}
phase: Pending
message: ""
startTime: {{ or .status.startTime $now | Quote }}
conditions:
- type: PodReadyToStartContainers
  status: "False"
  lastTransitionTime: {{ $now | Quote }}
- type: Initialized
  status: "True"
  lastTransitionTime: {{ $now | Quote }}
{{ range $type := list "Ready" "ContainersReady" }}
- type: {{ $type | Quote }}
  status: "False"
  reason: ContainersNotReady
  lastTransitionTime: {{ $now | Quote }}
{{ end }}
containerStatuses:
{{ range .spec.containers }}
- name: {{ .name | Quote }}
  image: {{ .image | Quote }}
  ready: false
  started: false
  restartCount: 0
  state:
    waiting:
      reason: ContainerCreating
{{ end }}
"""

#: Status of a pod that is deleted before its containers have ended. A kubelet sets a terminal phase
#: before it deletes a pod (kubernetes v1.34.4 pkg/kubelet/status/status_manager.go,
#: TerminatePod), and the Job controller waits for it if the Job has a podFailurePolicy
#: (pkg/controller/job/job_controller.go, isPodFailed).
POD_KILLED = """
phase: Failed
"""


def _match(key: str, operator: str, *values: str) -> Json:
    return {"key": key, "operator": operator, **({"values": list(values)} if values else {})}


_ALIVE = _match(".metadata.deletionTimestamp", "DoesNotExist")


def _stage_object(kind: str, name: str, matches: list[Json], action: Json, **extra: Any) -> Json:
    return {
        "apiVersion": "kwok.x-k8s.io/v1alpha1",
        "kind": "Stage",
        "metadata": {"name": name},
        "spec": {
            "resourceRef": {"apiGroup": "v1", "kind": kind},
            "selector": {"matchExpressions": matches},
            "next": action,
            **extra,
        },
    }


def _pod_stage(name: str, template: str, *matches: Json) -> Json:
    return _stage_object("Pod", name, [_ALIVE, *matches], {"statusTemplate": template})


def _ended_status(phase: str, code: int) -> str:
    condition = "PodCompleted" if phase == "Succeeded" else "PodFailed"
    reason = "Completed" if code == 0 else "Error"
    return _ENDS.format(phase=phase, code=code, condition=condition, reason=reason)


def stages(log_port: int) -> list[Json]:
    """Return all of kwok's Stages, for nodes and for pods.

    Args:
        log_port: Port at which the nodes' kubelet serves logs.
    """
    node_ready = NODE_READY.replace("LOG_PORT", str(log_port))
    pending = _match(".status.phase", "In", "Pending")
    running = _match(".status.phase", "In", "Running")
    deleted = [_match(".metadata.deletionTimestamp", "Exists")]
    unready = _match(_READY, "NotIn", "True")
    ends = _match(".spec.restartPolicy", "In", "Never", "OnFailure")
    message_old = _match(f'(.status.message // "") == ({_MESSAGE} // "")', "In", "false")
    return [
        _stage_object("Node", "node-ready", [unready], {"statusTemplate": node_ready + NODE_INFO}),
        _stage_object(
            "Node",
            "node-heartbeat",
            [running, _match(_READY, "In", "True")],
            {"statusTemplate": node_ready},
            delay={"durationMilliseconds": 600_000, "jitterDurationMilliseconds": 610_000},
        ),
        _pod_stage(
            "pod-runs",
            POD_RUNS,
            pending,
            unready,
            _match('.metadata.labels["app.kubernetes.io/name"]', "NotIn", PLUGIN_NAME),
            _match(".metadata.labels.app", "NotIn", OPERATOR_PLUGIN_APP),
            _match(f'.metadata.labels["{MANAGER_KEY}"]', "NotIn", MANAGER, STATIC_PLUGIN),
            _match(f'.metadata.labels["{DRA_KEY}"]', "NotIn", DRA),
            _match(f'.metadata.labels["{HAMI_KEY}"]', "NotIn", HAMI),
            _match(f'.metadata.labels["{INSTALLER}"]', "DoesNotExist"),
        ),
        _pod_stage("plugin-runs", POD_RUNS, unready, _match(_OUTCOME, "In", RUNNING)),
        _pod_stage(
            "plugin-has-no-sandbox",
            POD_WITHOUT_SANDBOX,
            _match(_WAITING, "NotIn", "ContainerCreating"),
            _match(_OUTCOME, "In", WITHOUT_SANDBOX),
        ),
        _pod_stage("plugin-crashes", POD_CRASHES, message_old, _match(_OUTCOME, "In", CRASHING)),
        _pod_stage(
            "pod-completes",
            _ended_status("Succeeded", 0),
            running,
            ends,
            _match(_VALIDATION, "DoesNotExist"),
        ),
        _stage_object(
            "Pod",
            "pod-is-killed",
            [*deleted, _match(_FINALIZERS, "In", "true"), _match(_ENDED, "In", "false")],
            {"statusTemplate": POD_KILLED},
        ),
        _stage_object(
            "Pod",
            "pod-goes",
            [*deleted, _match(f"({_FINALIZERS} | not) or ({_ENDED})", "In", "true")],
            {"delete": True},
        ),
    ]
