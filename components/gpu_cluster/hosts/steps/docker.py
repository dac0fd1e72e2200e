"""Step that configures the NVIDIA runtime in Docker, and Docker's own settings."""

from __future__ import annotations

import json
from collections.abc import Iterator

from gpu_cluster.desired.host import DesiredHost
from gpu_cluster.host_facts import HostFacts
from gpu_cluster.hosts.step import RUNTIME_PATH, Given, Phase, Step, old_engine, said
from gpu_cluster.settings.hosts.runtime import Engine
from gpu_rules.faults import Fault


def _docker_inputs(host: DesiredHost) -> Given:
    docker = host.sections.runtime.docker
    return Given(
        settings={
            "GC_SYSTEMD_CGROUP": said(host.sections.runtime.systemd_cgroup),
            "GC_RUNTIME_PATH": RUNTIME_PATH,
            "GC_CDI": said(host.sections.runtime.cdi),
            "GC_DOCKER_MIRRORS": "\n".join(map(json.dumps, docker.registry_mirrors)),
            "GC_DOCKER_DATA_ROOT": docker.data_root or "",
            "GC_DOCKER_STORAGE": docker.storage_driver.value,
            "GC_DOCKER_MEMBERS": " ".join(docker.members),
            "GC_DOCKER_FORWARD": docker.forward.value,
        }
    )


def _judge_docker(host: DesiredHost, facts: HostFacts) -> Iterator[Fault]:
    yield from old_engine(host, facts, facts.docker, (20, 10))


STEP = Step(
    does="sets up the NVIDIA runtime in Docker and restarts it",
    given=_docker_inputs,
    phase=Phase.RUNTIME,
    after="toolkit",
    engines=(Engine.DOCKER,),
    files=("docker", "library/docker_config", "library/docker_data"),
    disrupts=(
        "GC_SYSTEMD_CGROUP",
        "GC_RUNTIME_PATH",
        "GC_CDI",
        "GC_DOCKER_MIRRORS",
        "GC_DOCKER_DATA_ROOT",
        "GC_DOCKER_STORAGE",
        "GC_DOCKER_MEMBERS",
        "GC_DOCKER_FORWARD",
    ),
    judge=_judge_docker,
    writes=("/etc/docker/daemon.json",),
)
