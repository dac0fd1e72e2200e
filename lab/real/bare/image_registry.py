"""Image registry of the test site: serves container images over HTTP on loopback.

Source: OCI Distribution Specification 1.1, "Pull".
"""

from __future__ import annotations

import contextlib
import re
import subprocess
from collections.abc import Iterator, Mapping
from http import HTTPStatus
from http.server import ThreadingHTTPServer
from pathlib import Path

from gpu_cluster.base.image import VECTORADD, path_of
from gpu_cluster.platforms.device_plugin.values import IMAGE as PLUGIN_IMAGE
from gpu_cluster.settings.hosts.kubeadm_init import KubeVip
from gpu_cluster_lab.simulator.http_servers import QuietHandler, running
from lab.real import image
from lab.real.parts import CONTROL_PLANE, PLUGIN

STATIC_PODS = (*CONTROL_PLANE, "etcd")
PAUSE = "pause"
SANDBOX = "sandbox:1"
NETWORK = "network:1"
KUBE_VIP = path_of(KubeVip().image)
PARTS = dict.fromkeys((SANDBOX, NETWORK), image.IMAGE) | {
    path_of(name): name for name in (f"{PLUGIN_IMAGE}:v{PLUGIN}", VECTORADD)
}
"""Names of images in this registry, and the corresponding name in `lab.real.image`."""
_ASKED = re.compile(r"/v2/(?P<name>[a-z0-9/_.-]+)/(?P<kind>manifests|blobs)/(?P<which>[\w:.-]+)")


def tags(kubeadm: Path, version: str) -> dict[str, str]:
    """Return the tags of the images that kubeadm pulls for a Kubernetes version.

    The keys are image names.

    Args:
        kubeadm: Path of the kubeadm program of that version.
        version: Version of Kubernetes.
    """
    command = [str(kubeadm), "config", "images", "list", f"--kubernetes-version=v{version}"]
    listed = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout
    names = (line.rpartition("/")[2].partition(":") for line in listed.split())
    return {name: tag for name, _, tag in names}


def images(
    programs: Mapping[str, Path], kubernetes: Mapping[str, Mapping[str, Path]]
) -> dict[str, image.LayeredImage]:
    """Return all images of the registry by name and tag.

    Args:
        programs: Paths of the programs in the tests' image, and of kube-vip, by name.
        kubernetes: Paths of Kubernetes programs, by version and name.
    """
    layer = image.parts(programs)
    by_name = {name: image.LayeredImage.of(layer, image.NAMES[of]) for name, of in PARTS.items()}
    if "kube-vip" in programs:
        layer = image.layer_of({"kube-vip": programs["kube-vip"]})
        by_name[KUBE_VIP] = image.LayeredImage.of(layer, {"Entrypoint": ["/kube-vip"]})
    for version, version_programs in kubernetes.items():
        tagged = tags(version_programs["kubeadm"], version)
        by_name[f"{PAUSE}:{tagged[PAUSE]}"] = by_name[SANDBOX]
        for name in STATIC_PODS:
            path = f"usr/bin/{name}"
            client = {"usr/bin/etcdctl": programs["etcdctl"]} if name == "etcd" else {}
            layer = image.layer_of({path: version_programs[name], **client})
            by_name[f"{name}:{tagged[name]}"] = image.LayeredImage.of(
                layer, {"Entrypoint": [f"/{path}"]}
            )
    return by_name


@contextlib.contextmanager
def served(images_by_name: Mapping[str, image.LayeredImage]) -> Iterator[int]:
    """Serve container images over HTTP; yield the server's port."""
    blobs = {
        digest: blob
        for image_held in images_by_name.values()
        for digest, blob in image_held.blobs.items()
    }

    class Handler(QuietHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self._answer(body=True)

        def do_HEAD(self) -> None:
            self._answer(body=False)

        def _answer(self, body: bool) -> None:
            request_match = _ASKED.fullmatch(self.path.partition("?")[0])
            digest = request_match["which"] if request_match else ""
            kind = "application/octet-stream"
            if request_match and request_match["kind"] == "manifests":
                tagged = images_by_name.get(f"{request_match['name']}:{digest}")
                digest, kind = tagged.manifest if tagged else digest, image.MANIFEST
            blob = blobs.get(digest, b"")
            exists = bool(blob) or self.path == "/v2/"
            self.send_response(HTTPStatus.OK if exists else HTTPStatus.NOT_FOUND)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(blob)))
            self.send_header("Docker-Content-Digest", digest)
            self.end_headers()
            if body:
                self.wfile.write(blob)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    with running(server):
        yield server.server_port
