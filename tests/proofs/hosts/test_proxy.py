"""Hosts that reach the internet only through an HTTP proxy: packages, downloads, images."""

from __future__ import annotations

import contextlib
import hashlib
import http.server
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from gpu_cluster.driver_daemonset.component import daemon_set
from gpu_cluster.settings.hosts.proxy import ProxySettings
from gpu_cluster_lab.simulator.hosts import catalogue
from gpu_cluster_lab.simulator.hosts.packages import build
from gpu_cluster_lab.simulator.http_servers import QuietHandler, running
from gpu_rules.faults import ConfigError
from tests.fixtures.clusters import INSTALLERS, cluster
from tests.proofs.hosts import software
from tests.proofs.hosts.declared import prepare
from tests.proofs.hosts.machine import Running, differences
from tests.resolved import platform_of

OUTSIDE = "packages.gpu-cluster.invalid"
"""Host name that DNS can't resolve, so that only requests through the proxy succeed."""


@contextlib.contextmanager
def proxy(folder: Path) -> Iterator[tuple[str, set[str]]]:
    """Run a forward proxy on loopback that answers requests for all URLs from one folder.

    Yield the proxy's URL and the set of requests that it has received.
    """
    asked: set[str] = set()

    class Handler(QuietHandler, http.server.SimpleHTTPRequestHandler):
        def do_GET(self) -> None:
            wanted = urlsplit(self.path)
            asked.add(f"{wanted.hostname} {wanted.path.rpartition('/')[2]}")
            self.path = wanted.path
            super().do_GET()

    def handler(*words: Any) -> Handler:
        return Handler(*words, directory=str(folder))

    with running(http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)) as address:
        yield address, asked


@pytest.mark.parametrize("system", ["debian", pytest.param("rocky", marks=pytest.mark.slow)])
def test_packages_and_keys_come_by_the_declared_proxy(
    cluster: str, namespaces: None, tmp_path: Path, system: str
) -> None:
    host = software.start(cluster, system)
    form = software.FORMATS[system]
    built = build(form, catalogue.kubernetes("1.34.4"))
    (tmp_path / "repository").symlink_to(built.folder)
    (tmp_path / "key.asc").write_text(built.key)
    repository = {
        "url": f"http://{OUTSIDE}/repository",
        "keyUrl": f"http://{OUTSIDE}/key.asc",
        "keySha256": hashlib.sha256(built.key.encode()).hexdigest(),
    }
    sections = {"kubernetesPackages": {"version": "1.34.4", "repository": {form: repository}}}
    assert host.apply(software.script(sections)).status == 1
    with proxy(tmp_path) as (address, asked):
        declared = {**sections, "proxy": {"http": address, "noProxy": ["192.0.2.0/24"]}}
        done = host.apply(software.script(declared))
        assert (done.status, done.errors) == (0, "")
        assert f"{OUTSIDE} key.asc" in asked
        assert host.apply(software.script(declared)).output == "changed=0\n"
    assert software.installed(host, system)["kubelet"].startswith("1.34.4-")
    # Because no container used a GPU, the script has restarted containerd with the proxy settings.
    pid = host.read("/run/simulated-systemd/containerd.pid").strip()
    variables = host.run(f"tr '\\0' '\\n' </proc/{pid}/environ").output.splitlines()
    assert f"HTTP_PROXY={address}" in variables
    assert "NO_PROXY=localhost,127.0.0.1,::1,192.0.2.0/24" in variables
    assert host.undo(software.script(declared)).status == 0
    assert not host.exists("/etc/systemd/system/containerd.service.d/50-gpu-cluster-proxy.conf")


FOLDER = "/etc/systemd/system/containerd.service.d"
ADDRESS = "http://proxy.example.org:3128"
OTHER = 'Environment="HTTP_PROXY=http://old.example.org:80" "NO_PROXY=localhost,127.0.0.1,::1"\n'


@pytest.mark.promise(
    "A declared proxy is in the environment of the running engine, or the file that says "
    "otherwise is named before anything changes."
)
@pytest.mark.slow
def test_the_running_engine_has_the_proxy_and_losing_it_is_drift(host: Running) -> None:
    host.write(f"{FOLDER}/10-proxy.conf", f"[Service]\n{OTHER}")
    host.run("systemctl daemon-reload; systemctl restart containerd")
    wanted = prepare(proxy=ProxySettings(http=ADDRESS))
    assert host.apply(wanted).errors == ""
    pid = host.read("/run/simulated-systemd/containerd.pid").strip()
    assert f"HTTP_PROXY={ADDRESS}" in host.run(f"tr '\\0' '\\n' </proc/{pid}/environ").output
    assert software.drift(host) == ()
    host.write(f"{FOLDER}/http-proxy.conf", f"[Service]\n{OTHER}")
    host.run("systemctl daemon-reload; systemctl restart containerd")
    assert software.drift(host) == ("unit containerd runs without HTTP_PROXY as declared",)


@pytest.mark.promise(
    "A service gives up what is no longer declared for it in the run that removes it, or the run "
    "says that it waits and drift names the service until then."
)
@pytest.mark.slow
@pytest.mark.parametrize("ends", ["section", "undo"])
def test_a_proxy_that_is_no_longer_declared_leaves_the_running_engine(
    host: Running, ends: str
) -> None:
    before = host.tree()
    declared = prepare(proxy=ProxySettings(http=ADDRESS))
    assert host.apply(declared).errors == ""
    ended = host.apply(prepare()) if ends == "section" else host.undo(declared)
    assert (ended.status, ended.errors) == (0, "")
    pid = host.read("/run/simulated-systemd/containerd.pid").strip()
    assert "HTTP_PROXY" not in host.run(f"tr '\\0' '\\n' </proc/{pid}/environ").output
    if ends == "undo":
        assert differences(before, host.tree()) == {}
    else:
        assert host.apply(prepare()).output == "changed=0\n"


def test_a_driver_in_a_container_goes_out_by_the_proxy() -> None:
    address = "http://proxy.example.org:3128"
    variables = {"HTTPS_PROXY": address, "NO_PROXY": "localhost,127.0.0.1,::1,10.0.0.0/8"}
    wanted = {**variables, **{name.lower(): value for name, value in variables.items()}}
    section = {"https": address, "noProxy": ["10.0.0.0/8"]}
    operator = cluster(platform="gpu-operator", driver={"source": "operator"}, proxy=section)
    given = platform_of(operator).values()["driver"]["env"]
    assert {item["name"]: item["value"] for item in given} == wanted
    declared = cluster(
        driver={"source": "daemonset", "version": "595.91.07"},
        driverInstaller={"images": INSTALLERS},
        proxy=section,
    )
    assert declared.installer is not None
    made = daemon_set(declared.installer, platform_of(declared).site, declared.pools[0])
    installer, *_ = made["spec"]["template"]["spec"]["initContainers"]
    assert wanted.items() <= {item["name"]: item["value"] for item in installer["env"]}.items()


def test_without_a_proxy_nothing_says_so() -> None:
    assert ProxySettings(no_proxy=("10.0.0.0/8",)).environment == {}
    assert "PROXY" not in software.script({})


@pytest.mark.parametrize(
    ("address", "found"),
    [
        ("http://me:pepper@proxy.example.org:3128", "an address with a user"),
        ("socks5://proxy.example.org", "http or https address"),
        ('http://proxy.example.org" x', "http or https address"),
    ],
)
def test_a_proxys_address_holds_no_secret_and_nothing_else(address: str, found: str) -> None:
    with pytest.raises(ConfigError) as refused:
        cluster(proxy={"http": address})
    assert found in str(refused.value)
    assert "pepper" not in str(refused.value)
