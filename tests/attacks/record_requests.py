"""`make roles`: records what the program asks an API server for, and writes the roles anew.

Each platform is previewed, brought up, previewed again and destroyed on an embedded cluster whose
API server logs its requests. What is written is committed, and judged by `test_roles.py`.
"""

from __future__ import annotations

import json
import os
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path

from commands.roles import Request, requests, role, text
from lab.simulator.control_plane import AUDIT, ControlPlane
from tests.e2e.project import Project, started
from tests.platform import ways

ROOT = Path(__file__).resolve().parents[2]
FILE = Path(__file__).with_name("requests.json")
PHASES = {"preview": "preview", "up": "deploy", "destroy": "deploy"}
WAYS = ("device-plugin-driver-daemonset", "gpu-operator-driver", "gpu-manager", "dra")
HEAD = {
    "preview": "What a preview needs: it can only read. Secrets are among it, for Helm keeps its\n"
    "records there; name their namespaces by RoleBindings where that is too much.",
    "deploy": "What a deployment needs. Charts bring roles of their own, so who deploys them may\n"
    "give himself any (bind, escalate): in effect cluster-admin.",
}


HOSTS = "hosts"
#: What else a stack may declare that an API server is asked for.
BESIDE = {"device-plugin-driver-daemonset": {"guardrails": {"mode": "warn"}}}
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


@dataclass
class Recording:
    """The requests of previews and of deployments, from one API server's audit log."""

    project: Project
    result: dict[str, set[Request]]

    def run(self, way: str, command: str) -> None:
        """Runs a command and adds what it asked for."""
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
        """Hosts that ask for a boot, where work must be evicted first."""
        project = self.project
        project.write(project.declared() | {"reboot": {"when": "required"}})
        self.run(HOSTS, "up")
        project.request("POST", "namespaces/default/deployments", base="/apis/apps", body=WORK)
        mark = project.host_root("gpu-1") / "run/gpu-cluster/reboot-required"
        mark.parent.mkdir(exist_ok=True)
        mark.write_text("a new kernel\n")
        self.run(HOSTS, "up")
        project.request("DELETE", "namespaces/default/deployments/work", base="/apis/apps")
        self.run(HOSTS, "destroy")


def record() -> dict[str, set[Request]]:
    """The requests of previews and of deployments."""
    result: dict[str, set[Request]] = {"preview": set(), "deploy": set()}
    with tempfile.TemporaryDirectory(prefix="gpu-cluster-roles-") as folder:
        project = Project.make(Path(folder), f"roles-{os.getpid()}")
        recording = Recording(project, result)
        with started(project):
            for way in WAYS:
                project.write(ways.declared(project.stack, way, **BESIDE.get(way, {})))
                for command in ("preview", "up", "preview"):
                    recording.run(way, command)
                recording.run(way, "destroy")
            recording.reboot()
    result["deploy"] |= result["preview"]  # a deployment inspects, too
    return result


def write(found: dict[str, set[Request]]) -> None:
    """Writes what was recorded, and the roles that follow from it."""
    kept = {name: [asdict(item) for item in sorted(asked)] for name, asked in found.items()}
    FILE.write_text(json.dumps(kept, indent=0) + "\n")
    for name, asked in found.items():
        file = ROOT / "policies" / "roles" / f"{name}.yaml"
        file.parent.mkdir(exist_ok=True)
        file.write_text(text(role(name, asked), HEAD[name]))
        print(f"{file.relative_to(ROOT)}: {len(asked)} kinds of requests")


def main() -> None:
    """Records and writes."""
    os.environ[AUDIT] = "1"
    write(record())


if __name__ == "__main__":
    main()
