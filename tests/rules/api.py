"""An API server for a test: real etcd and kube-apiserver, nothing else."""

from __future__ import annotations

import os
import ssl
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import yaml

import toolchain

WAIT = 90
"""Seconds for the control plane to come up, and to go."""


@contextmanager
def serve(folder: Path) -> Iterator[httpx.Client]:
    """A client of an API server with a namespace `default` that pods can be made in."""
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
    arguments += ["--runtime=binary", "--disable-kube-scheduler"]
    arguments += ["--disable-kube-controller-manager"]
    arguments += [f"--wait={WAIT}s", f"--kubeconfig={kubeconfig}"]
    try:
        done = subprocess.run(
            [kwokctl, "create", "cluster", *name, *arguments],
            env=env, capture_output=True, text=True, timeout=2 * WAIT, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        with _client(kubeconfig) as client:
            account = {"apiVersion": "v1", "kind": "ServiceAccount"}
            answer = client.post(
                "/api/v1/namespaces/default/serviceaccounts",
                json={**account, "metadata": {"name": "default"}},
            )
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
