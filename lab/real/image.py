"""Container image of the tests, built offline from programs and libraries of this machine.

The image contains the C library, a shell, the test program `probe` and NVIDIA's programs. It is
stored under every image name to which the tested charts and settings refer.
"""

from __future__ import annotations

import hashlib
import io
import json
import re
import shutil
import subprocess
import tarfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from gpu_cluster.base.image import VECTORADD
from gpu_cluster.charts.images import nfd_image
from gpu_cluster.platforms.device_plugin.values import IMAGE as PLUGIN_IMAGE
from lab.real.parts import PLUGIN

IMAGE = "real.gpu-cluster.invalid/parts:1"
LIBRARIES = Path("usr/lib/x86_64-linux-gnu")
"""Folder of the image where programs find C libraries."""
PATHS = ("PATH=/usr/bin:/usr/sbin", f"LD_LIBRARY_PATH=/{LIBRARIES}")
#: All image names to which charts and settings refer, each with fields of the original image's
#: configuration. Sources: k8s-device-plugin v0.19.3, deployments/container/Dockerfile, "ENV";
#: node-feature-discovery v0.17.3, Dockerfile, "USER", without which the kubelet rejects
#: `runAsNonRoot`.
NAMES: Mapping[str, Mapping[str, object]] = {
    IMAGE: {},
    VECTORADD: {},
    f"{PLUGIN_IMAGE}:v{PLUGIN}": {
        "Env": [
            *PATHS,
            "NVIDIA_DISABLE_REQUIRE=true",
            "NVIDIA_VISIBLE_DEVICES=all",
            "NVIDIA_DRIVER_CAPABILITIES=compute,utility",
        ]
    },
    nfd_image(PLUGIN): {"User": "65534:65534"},
}
PROGRAMS = (
    "probe",
    "nvidia-device-plugin",
    "gpu-feature-discovery",
    "config-manager",
    "mps-control-daemon",
    "gpu-kubelet-plugin",
    "nfd-worker",
    "nfd-master",
    "nfd-gc",
)
#: Programs of this machine that the tests' image has: the MPS daemon mounts its folder
#: (k8s-device-plugin v0.19.3, cmd/mps-control-daemon/mount), and the GPU Operator starts the device
#: plugin with a script for bash (gpu-operator v24.3.0, assets/state-device-plugin).
SYSTEM_PROGRAMS = ("mount", "umount", "bash", "sleep")
#: Paths of CUDA programs in images. By default the test program `probe` is installed there; it
#: prints that it runs no CUDA kernel.
ALL_REDUCE = "opt/nccl_tests/build/all_reduce_perf"
PROBES = ("cuda-samples/sample", ALL_REDUCE)
#: Name of a CUDA program that runs a kernel on real GPUs (`lab/real/gpu`).
SAMPLE = "sample"
#: Name of the NVIDIA driver's program whose C libraries are added to the image.
DRIVER_PROGRAM = "nvidia-smi"
_LIBRARY = re.compile(r"(=> )?(/\S+) \(0x")
_FOLDERS = (
    *("etc", "tmp", "var", "run", "dev", "proc", "sys", "usr", "usr/bin", "usr/sbin", "lib64"),
    *("cuda-samples", "opt", "opt/nccl_tests", "opt/nccl_tests/build"),
)
MANIFEST = "application/vnd.oci.image.manifest.v1+json"


@dataclass(frozen=True)
class LayeredImage:
    """Container image with one layer.

    Attributes:
        blobs: Content of layer, configuration and manifest, by digest.
        manifest: Digest of the manifest.
    """

    blobs: Mapping[str, bytes]
    manifest: str

    @classmethod
    def of(cls, layer: bytes, settings: Mapping[str, object]) -> LayeredImage:
        """Return an image with one layer.

        `settings` has additional fields of the image configuration.
        """
        config = _image_config(layer, settings)
        manifest = _image_manifest(config, layer)
        return cls(
            {_digest_of(blob): blob for blob in (layer, config, manifest)}, _digest_of(manifest)
        )


def layer_of(files: Mapping[str, Path]) -> bytes:
    """Return an image layer (a tar archive) with `files` and the C library that they need."""
    return _pack_layer({**files, **_shared_libraries(files.values())})


def parts(programs: Mapping[str, Path]) -> bytes:
    """Return the layer of the tests' image, with a shell and the programs in `PROGRAMS`."""
    chosen = {name: programs[name] for name in PROGRAMS if name in programs}
    files = {f"usr/bin/{name}": path for name, path in chosen.items()} | system(*SYSTEM_PROGRAMS)
    files |= _shared_libraries(path for name, path in programs.items() if name == DRIVER_PROGRAM)
    return layer_of(files | {name: programs.get(SAMPLE, programs["probe"]) for name in PROBES})


def system(*names: str) -> dict[str, Path]:
    """Return a shell and further programs of this machine, by their paths in an image."""
    programs = {name: Path(shutil.which(name) or f"/bin/{name}").resolve() for name in names}
    return {f"usr/bin/{name}": path for name, path in {**programs, "sh": _find_shell()}.items()}


def write(
    target: Path,
    programs: Mapping[str, Path],
    other_images: Mapping[str, LayeredImage] | None = None,
) -> None:
    """Write the OCI archive of the tests' image, under all image names in `NAMES`.

    A program named `SAMPLE` is installed at the paths of CUDA programs; without such a program,
    `probe` is installed there. A program named `nvidia-smi` is not added, but the C libraries that
    it needs are: the driver's libraries need the same, and the image has no others. `other_images`
    are further images of the archive, by name.
    """
    layer = parts(programs)
    blobs: dict[str, bytes] = {}
    entries = []
    images = {name: LayeredImage.of(layer, settings) for name, settings in NAMES.items()}
    for name, image in {**images, **(other_images or {})}.items():
        blobs |= image.blobs
        described = _describe_blob(MANIFEST, image.blobs[image.manifest])
        entries.append({**described, "annotations": {"io.containerd.image.name": name}})
    index = {"schemaVersion": 2, "manifests": entries}
    contents = {f"blobs/sha256/{digest[7:]}": blob for digest, blob in blobs.items()}
    contents |= {
        "index.json": _json_bytes(index),
        "oci-layout": _json_bytes({"imageLayoutVersion": "1.0.0"}),
    }
    with tarfile.open(target, "w") as archive:
        for name, content in contents.items():
            archive.addfile(_tar_entry(name, len(content), 0o644), io.BytesIO(content))


def _image_config(layer: bytes, settings: Mapping[str, object]) -> bytes:
    return _json_bytes(
        {
            "architecture": "amd64",
            "os": "linux",
            "config": {
                "Entrypoint": ["/usr/bin/probe", "pause"],
                "Env": list(PATHS),
                **settings,
            },
            "rootfs": {"type": "layers", "diff_ids": [_digest_of(layer)]},
        }
    )


def _image_manifest(config: bytes, layer: bytes) -> bytes:
    return _json_bytes(
        {
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "config": _describe_blob("application/vnd.oci.image.config.v1+json", config),
            "layers": [_describe_blob("application/vnd.oci.image.layer.v1.tar", layer)],
        }
    )


def _find_shell() -> Path:
    return Path(shutil.which("dash") or "/bin/sh").resolve()


def _shared_libraries(programs: Iterable[Path]) -> dict[str, Path]:
    """Return the C libraries that some programs load, by path relative to the root.

    The image has all of them in `LIBRARIES`, also those from another folder of this machine, such
    as the folder of a compiler. Only the dynamic loader keeps its path, which the programs name.
    """
    libraries: dict[str, Path] = {}
    for program in programs:
        done = subprocess.run(
            ["ldd", str(program)], capture_output=True, text=True, timeout=30, check=False
        )
        # For a statically linked program, ldd lists no libraries.
        for searched, name in _LIBRARY.findall(done.stdout):
            path = Path(name)
            place = LIBRARIES / path.name if searched else path.relative_to("/")
            libraries[str(place)] = path.resolve()
    return libraries


def _pack_layer(files: Mapping[str, Path]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for folder in _FOLDERS:
            entry = _tar_entry(folder, 0, 0o755)
            entry.type = tarfile.DIRTYPE
            archive.addfile(entry)
        merged = _tar_entry("bin", 0, 0o777)
        merged.type, merged.linkname = tarfile.SYMTYPE, "usr/bin"
        archive.addfile(merged)
        for name, path in sorted(files.items()):
            content = path.read_bytes()
            archive.addfile(_tar_entry(name, len(content), 0o755), io.BytesIO(content))
    return buffer.getvalue()


def _tar_entry(name: str, size: int, mode: int) -> tarfile.TarInfo:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = size, mode
    return entry


def _json_bytes(value: object) -> bytes:
    return json.dumps(value, sort_keys=True).encode()


def _digest_of(blob: bytes) -> str:
    return f"sha256:{hashlib.sha256(blob).hexdigest()}"


def _describe_blob(kind: str, blob: bytes) -> dict[str, object]:
    return {"mediaType": kind, "digest": _digest_of(blob), "size": len(blob)}
