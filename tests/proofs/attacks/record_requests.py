"""`make roles`: record the program's requests to an API server, and generate RBAC roles from them.

Each platform is previewed, deployed, previewed again and destroyed on an embedded cluster whose API
server writes an audit log; one platform also gets all optional settings. The generated files are
committed and checked by `test_roles.py`. `python -m tests.proofs.attacks.record_requests WAY`
records one way of deploying and adds its requests to the recorded ones.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from gpu_cluster.commands.utilization import GROUP, METRIC
from gpu_cluster.loading.loader import load
from gpu_cluster.settings.platform import NAMES
from gpu_cluster_lab.simulator.control_plane import AUDIT, ControlPlane
from maintenance.roles import Json, Request, requests, role, text
from tests.proofs.e2e.project import Project, started
from tests.proofs.platform import ways
from tests.proofs.platform.definitions import defined, definition
from tests.resolved import platform_of

ROOT = Path(__file__).resolve().parents[3]
FILE = Path(__file__).with_name("requests.json")
PHASES = {"preview": "preview", "who": "preview", "up": "deploy", "destroy": "deploy"}
WAYS = (
    *("device-plugin-driver-daemonset", "device-plugin", "gpu-operator-driver", "gpu-manager"),
    *("hami", "dra"),
)
HEAD = {
    "preview": "What a preview needs: it can only read. Helm keeps its records in Secrets: a Role\n"
    "in each release's namespace reads them. Where a stack file names another namespace, so must\n"
    "the Role. Bind the ClusterRole by a ClusterRoleBinding, a Role by a RoleBinding of its\n"
    "namespace.",
    "deploy": "What a deployment needs. Charts bring roles of their own, so who deploys them may\n"
    "give himself any (bind, escalate): in effect cluster-admin.",
}


HOSTS, CHANGES = "hosts", "changes"
# Optional settings that cause further requests to the API server, for each way of deploying GPU
# software.
BESIDE: dict[str, dict[str, Any]] = {
    "device-plugin-driver-daemonset": {"guardrails": {"mode": "warn"}},
    "device-plugin": {
        "monitoring": {"operatorObjects": "always"},
        "scheduling": {
            "priorityClasses": [{"name": "gpu-training", "value": 1000}],
            "limits": [{"namespace": "default", "maxCards": 2}],
        },
    },
    "gpu-manager": {"gpuManager": {"extenderAddress": "10.0.0.200"}},
    "gpu-operator-driver": {
        "gpuOperator": {"migStrategy": "single"},
        "pools": [
            {"name": "a100", "nodes": ["gpu-[1-2]"], "gpusPerNode": 8, "mig": {"1g.5gb": 7}},
            {"name": "t4", "nodes": ["gpu-3"], "gpusPerNode": 8},
        ],
    },
}
# Kinds of the Prometheus Operator's custom resources that the section `monitoring` creates.
KINDS = tuple(
    definition("monitoring.coreos.com", "v1", kind, "Namespaced")
    for kind in ("ServiceMonitor", "PrometheusRule")
)
WORK = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "work", "namespace": "default"},
    "spec": {
        "selector": {"matchLabels": {"app": "work"}},
        "template": {
            "metadata": {"labels": {"app": "work"}},
            "spec": {
                "tolerations": [{"operator": "Exists"}],
                "nodeSelector": {"kubernetes.io/hostname": "gpu-1"},
                "containers": [
                    {
                        "name": "work",
                        "image": "work:1",
                        "resources": {"limits": {"nvidia.com/gpu": 1}},
                    }
                ],
            },
        },
    },
}


EXPLAINING = {
    Request("", "events", "list"),
    Request("", "resourcequotas", "list"),
    Request("apps", "replicasets", "list"),
    Request("apps", "statefulsets", "list"),
    Request("batch", "jobs", "list"),
    Request("kueue.x-k8s.io", "workloads", "list"),
}
"""Requests of `gpu-cluster why`, which is not recorded here; `tests/commands/test_why.py` compares
them.

Logs of containers may hold secrets, so the role of previews does not read them.
"""
UTILIZATION = {Request(GROUP, f"pods/{METRIC}", "get")}
"""Request of `gpu-cluster who` in a cluster with a metrics adapter, which is not recorded here.

The proof `tests/proofs/e2e/test_knowing.py` has such a cluster.
"""
MEASURING = {Request("", "pods", verb) for verb in ("create", "delete", "get")}
"""Requests of `gpu-cluster validate --tests …`, which is not recorded here."""
GRANTING = {Request("guardrails.gpu-cluster", "exemptions", "grant")}
"""What the guardrails ask before a namespace that the stack trusts is created.

The API server's authorizer answers it inside of a request, so the audit log doesn't show it.
"""


@dataclass
class Recording:
    """Recorded requests of previews and deployments, read from one API server's audit log."""

    project: Project
    result: dict[str, set[Request]]

    def run(self, way: str, command: str) -> None:
        """Run a command of the project and add its requests to the result."""
        log = ControlPlane(self.project.stack).audit_log
        begin = log.stat().st_size
        done = self.project.command(command)
        print(f"{way}: {done.stdout.strip().splitlines()[-1]}", flush=True)
        if done.returncode:
            raise SystemExit(done.stdout)
        with log.open("rb") as file:
            file.seek(begin)
            self.result[PHASES[command]] |= requests(file.read().decode().splitlines())

    def reboot(self) -> None:
        """Reboot hosts, and roll out a change that must evict pods; record the requests."""
        project = self.project
        # If the default runtime is `runc`, GPU pods need a RuntimeClass.
        runtime = {"defaultRuntime": "runc"}
        project.write(project.declared() | {"reboot": {"when": "required"}, "runtime": runtime})
        self.run(HOSTS, "up")
        project.request("POST", "namespaces/default/deployments", base="/apis/apps", body=WORK)
        mark = project.host_root("gpu-1") / "run/gpu-cluster/reboot-required"
        mark.parent.mkdir(exist_ok=True)
        mark.write_text("a new kernel\n")
        self.run(HOSTS, "up")
        budget = {
            "metadata": {"name": "work"},
            "spec": {"maxUnavailable": 0, "selector": {"matchLabels": {"app": "other"}}},
        }
        url = "namespaces/default/poddisruptionbudgets"
        project.request("POST", url, base="/apis/policy", body=budget)
        project.edit(lambda cluster: cluster["runtime"].update(devicesByEnvironment=True))
        self.run(HOSTS, "preview")
        self.run(HOSTS, "up")
        project.request("DELETE", f"{url}/work", base="/apis/policy")
        project.request("DELETE", "namespaces/default/deployments/work", base="/apis/apps")
        self.run(HOSTS, "destroy")

    def change(self) -> None:
        """Change the MIG layout, then the platform; record the requests.

        The new platform takes over the RuntimeClass of the old platform.
        """
        project = self.project
        way, runtime = "gpu-operator-driver", {"defaultRuntime": "runc"}
        project.write(ways.declared(project.stack, way, runtime=runtime, **BESIDE[way]))
        self.run(CHANGES, "up")
        project.edit(lambda cluster: cluster["pools"][0].update(mig={"3g.20gb": 2}))
        for command in ("preview", "up"):
            self.run(CHANGES, command)
        project.write(ways.declared(project.stack, "device-plugin", runtime=runtime))
        assert project.command("start").returncode == 0
        for command in ("preview", "up"):
            self.run(CHANGES, command)
        self.run(CHANGES, "destroy")


def record(chosen: Iterable[str]) -> dict[str, set[Request]]:
    """Preview, deploy and destroy stacks; return the recorded requests of previews and deployments.

    Each stack deploys GPU software in one of the chosen ways.
    """
    result: dict[str, set[Request]] = {"preview": set(), "deploy": set()}
    with tempfile.TemporaryDirectory(prefix="gpu-cluster-roles-") as folder:
        project = Project.make(Path(folder), f"roles-{os.getpid()}")
        recording = Recording(project, result)
        with started(project), defined(project, *KINDS):
            for way in (way for way in WAYS if way in chosen):
                project.write(ways.declared(project.stack, way, **BESIDE.get(way, {})))
                assert project.command("start").returncode == 0
                for command in ("preview", "up", "preview", "who"):
                    recording.run(way, command)
                recording.run(way, "destroy")
            if HOSTS in chosen:
                recording.reboot()
            if CHANGES in chosen:
                recording.change()
    result["preview"] |= EXPLAINING | UTILIZATION
    result["deploy"] |= MEASURING | GRANTING
    # A deployment also inspects the cluster, so it needs the requests of a preview too.
    result["deploy"] |= result["preview"]
    return result


def releases_role(namespace: str, asked: Iterable[Request]) -> Json:
    """Return the Role that allows reading Helm's release records in a release's namespace."""
    declared = role("preview-releases", asked)
    declared["metadata"]["namespace"] = namespace
    return {**declared, "kind": "Role"}


def preview_roles(asked: Iterable[Request], namespaces: Iterable[str]) -> list[Json]:
    """Return the roles for previews: a ClusterRole without Secrets, and a Role per Helm release.

    A preview reads Secrets only for Helm's release records, which are in the release's namespace.
    """
    everywhere = {request for request in asked if request.resource != "secrets"}
    records = set(asked) - everywhere
    return [
        role("preview", everywhere),
        *(releases_role(namespace, records) for namespace in sorted(namespaces)),
    ]


def namespaces() -> set[str]:
    """Return the default namespaces of the platforms' Helm releases.

    A namespace that the platform shares with other software is left out, because a Role would allow
    access to that software's Secrets.
    """
    pools = [{"name": "any", "nodes": ["any"], "gpusPerNode": 1}]
    base = {"version": "v1", "kubernetes": {"context": "any"}, "pools": pools}
    return {
        platform.namespace
        for platform in (platform_of(load({**base, "platform": name})) for name in NAMES)
        if platform.own_namespace
    }


def write(found: dict[str, set[Request]]) -> None:
    """Write the recorded requests, and the roles that allow them."""
    kept = {name: [asdict(item) for item in sorted(asked)] for name, asked in found.items()}
    FILE.write_text(json.dumps(kept, indent=0) + "\n")
    for name, asked in found.items():
        declared = preview_roles(asked, namespaces()) if name == "preview" else [role(name, asked)]
        file = ROOT / "policies" / "roles" / f"{name}.yaml"
        file.parent.mkdir(exist_ok=True)
        file.write_text(text(declared, HEAD[name]))
        print(f"{file.relative_to(ROOT)}: {len(asked)} kinds of requests")


def recorded() -> dict[str, set[Request]]:
    """Return the recorded requests that an earlier run has written."""
    kept = json.loads(FILE.read_text())
    return {name: {Request(**request) for request in asked} for name, asked in kept.items()}


def main() -> None:
    """Record the requests and write the roles.

    Arguments name ways of deploying; then only their requests are recorded and added to the earlier
    ones.
    """
    os.environ[AUDIT] = "1"
    chosen = sys.argv[1:]
    if unknown := set(chosen) - {*WAYS, HOSTS, CHANGES}:
        raise SystemExit(
            f"found {', '.join(unknown)}; wanted: {', '.join((*WAYS, HOSTS, CHANGES))}"
        )
    found = record(chosen or (*WAYS, HOSTS, CHANGES))
    if chosen:
        found = {name: asked | recorded()[name] for name, asked in found.items()}
    write(found)


if __name__ == "__main__":
    main()
