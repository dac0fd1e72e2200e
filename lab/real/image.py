"""The one image of the proof, made offline: C library, probe, NVIDIA's programs."""

from __future__ import annotations

import hashlib
import io
import json
import re
import subprocess
import tarfile
from collections.abc import Mapping
from pathlib import Path

IMAGE = "real.gpu-cluster.invalid/parts:1"
PROGRAMS = ("probe", "nvidia-device-plugin", "gpu-feature-discovery")
_LIBRARY = re.compile(r"(/\S+) \(0x")
_FOLDERS = ("etc", "tmp", "var", "run", "dev", "proc", "sys", "usr/bin", "usr/sbin", "lib64")


def write(target: Path, programs: Mapping[str, Path]) -> None:
    """Write the archive; its first program is the probe, which waits as a pod's sandbox."""
    layer = _layer({f"usr/bin/{name}": programs[name] for name in PROGRAMS} | _libraries(programs))
    blobs = [layer]
    config = _json(
        {
            "architecture": "amd64",
            "os": "linux",
            "config": {
                "Entrypoint": ["/usr/bin/probe", "pause"],
                "Env": ["PATH=/usr/bin:/usr/sbin", "LD_LIBRARY_PATH=/usr/lib/x86_64-linux-gnu"],
            },
            "rootfs": {"type": "layers", "diff_ids": [_digest(layer)]},
        }
    )
    manifest = _json(
        {
            "schemaVersion": 2,
            "mediaType": "application/vnd.oci.image.manifest.v1+json",
            "config": _described("application/vnd.oci.image.config.v1+json", config),
            "layers": [_described("application/vnd.oci.image.layer.v1.tar", layer)],
        }
    )
    blobs += [config, manifest]
    entry = _described("application/vnd.oci.image.manifest.v1+json", manifest)
    index = {
        "schemaVersion": 2,
        "manifests": [{**entry, "annotations": {"io.containerd.image.name": IMAGE}}],
    }
    files = {f"blobs/sha256/{_digest(blob)[7:]}": blob for blob in blobs}
    files |= {"index.json": _json(index), "oci-layout": _json({"imageLayoutVersion": "1.0.0"})}
    with tarfile.open(target, "w") as archive:
        for name, content in files.items():
            archive.addfile(_entry(name, len(content), 0o644), io.BytesIO(content))


def _libraries(programs: Mapping[str, Path]) -> dict[str, Path]:
    """The C library that the programs were linked with, where their loader looks for it."""
    found: dict[str, Path] = {}
    for name in PROGRAMS:
        done = subprocess.run(
            ["ldd", str(programs[name])], capture_output=True, text=True, timeout=30, check=True
        )
        for path in _LIBRARY.findall(done.stdout):
            found[str(Path(path).relative_to("/"))] = Path(path).resolve()
    return found


def _layer(files: Mapping[str, Path]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for folder in _FOLDERS:
            entry = _entry(folder, 0, 0o755)
            entry.type = tarfile.DIRTYPE
            archive.addfile(entry)
        for name, path in sorted(files.items()):
            content = path.read_bytes()
            archive.addfile(_entry(name, len(content), 0o755), io.BytesIO(content))
    return buffer.getvalue()


def _entry(name: str, size: int, mode: int) -> tarfile.TarInfo:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = size, mode
    return entry


def _json(value: object) -> bytes:
    return json.dumps(value, sort_keys=True).encode()


def _digest(blob: bytes) -> str:
    return f"sha256:{hashlib.sha256(blob).hexdigest()}"


def _described(kind: str, blob: bytes) -> dict[str, object]:
    return {"mediaType": kind, "digest": _digest(blob), "size": len(blob)}
