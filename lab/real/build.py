"""Build the real components from pinned Go modules into the cache; each is built only once.

The modules are in `lab/real/go`; modules of tools that the toolchain builds are in
`embedded/gpu_cluster_lab/toolchain/go`. Each module has its own go.sum, so that each component is
built with the library versions of its own release. Some components use cgo and need a C compiler.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from gpu_cluster.machine.folders import cache_dir
from gpu_cluster.machine.tool import Tool
from gpu_cluster_lab.toolchain import golang
from gpu_cluster_lab.toolchain.cache import Store, digest
from lab.real.parts import (
    ARITHMETIC,
    CRI_O,
    ETCDCTL,
    HAMI,
    KUBE_VIP,
    KUBERNETES,
    MOCK,
    NVIDIA,
    OPERATOR_MODULE,
    PARTS,
    PLUGIN_MODULE,
    ROOT,
    RealPart,
    kubernetes,
)

#: Timeout in seconds for building one Go module with empty caches on one slow core.
LIMIT = 3600
FLAGS = ("-trimpath", "-mod=readonly", "-gcflags=all=-dwarf=false")

_FUNCTION = re.compile(r"nvmlReturn_t\s+DECLDIR\s+(\w+)\s*\(")
#: Linker flags of NVIDIA's own Makefiles: NVML's functions are resolved when they are called.
_LAZY = "-Wl,--export-dynamic -Wl,--unresolved-symbols=ignore-in-object-files -Wl,-z,lazy"


class BuildError(RuntimeError):
    """Error: a real component can't be built; the message has the cause and the remedy."""


LIBRARY = "libnvidia-ml.so.1"
#: The program that loads the mock library has a Go runtime too, and exports its symbols; with
#: -Bsymbolic the library uses its own runtime's symbols. In a container, ldconfig links a library
#: by its SONAME.
SHARED = f"-Wl,-Bsymbolic -Wl,-soname,{LIBRARY}"


def missing() -> str:
    """Return why this machine can't run the real components; empty if it can."""
    if os.uname().sysname != "Linux" or os.uname().machine != "x86_64":
        return f"needs Linux on x86_64, this is {os.uname().sysname} on {os.uname().machine}"
    if os.geteuid() != 0:
        return "needs root: namespaces, mounts, device nodes"
    if shutil.which(os.environ.get("CC", "gcc")) is None:
        return "needs a C compiler: NVIDIA's programs bind NVML by cgo"
    return ""


def build(*modules: str) -> dict[str, Path]:
    """Build executables and the mock library if they are missing; return their paths by file name.

    Args:
        modules: Names of folders with a go.mod file; without any, all modules.

    Raises:
        BuildError: No C compiler was found, or a build failed; the message has the compiler's last
            lines.
    """
    if problem := missing():
        raise BuildError(f"real parts: {problem}; cure: run where it is there")
    programs: dict[str, Path] = {}
    for real_part in (*PARTS, MOCK):
        if not modules or real_part.module in modules:
            programs |= _build_part(real_part)
    return programs


def charts() -> Path:
    """Return the folder of the device plugin's Helm charts, from the plugin's Go module."""
    return _module_files("plugin", PLUGIN_MODULE) / "deployments" / "helm"


def operator_files() -> Path:
    """Return the folder of the GPU Operator's Go module: chart, CRDs and operands' manifests."""
    return _module_files("operator", OPERATOR_MODULE)


def _module_files(folder: str, module: str) -> Path:
    line = _run_command(ROOT / folder, golang.find_go(print), "mod", "download", "-json", module)
    return Path(json.loads(line)["Dir"])


def build_node() -> dict[str, Path]:
    """Build kubelet, kubeadm and kubectl; return their paths by program name."""
    return _build_part(KUBERNETES)


def build_arithmetic() -> Path:
    """Build the program that answers with Kubernetes' own functions; return its path."""
    return _build_part(ARITHMETIC)["arithmetic"]


def build_hami(source: Path) -> Path:
    """Build the program that answers with HAMi's own webhook and scheduler; return its path.

    Args:
        source: Folder with the source of https://github.com/Project-HAMi/HAMi.

    Raises:
        BuildError: The folder has another release than `HAMI`, or the build failed.
    """
    return _build_in_hami(source, "answers", {"main.go": ROOT / "hami" / "main.go"})


def build_hami_scheduler(source: Path) -> Path:
    """Build HAMi's scheduler, an extender of kube-scheduler with a webhook; return its path.

    Args:
        source: Folder with the source of https://github.com/Project-HAMi/HAMi.

    Raises:
        BuildError: The folder has another release than `HAMI`, or the build failed.
    """
    return _build_in_hami(source, "scheduler", {})


def _build_in_hami(source: Path, name: str, added: Mapping[str, Path]) -> Path:
    """Build a program inside HAMi's module; return its path.

    The tags of that module have no `/v2` in its path, so that no other module can require one.
    Nothing is written into the folder.

    Args:
        source: Folder with HAMi's source.
        name: Name of the program and of its folder in `cmd`.
        added: Files of this project that the program's folder gets, by name.
    """
    stated = source / "VERSION"
    version = stated.read_text("utf-8").strip().removeprefix("v") if stated.is_file() else "none"
    if version != HAMI:
        raise BuildError(
            f"HAMi in {source}: found version {version}; wanted: {HAMI}; cure: check that tag out"
        )
    store = Store(cache_dir() / "real")
    texts = {each: (source / each).read_bytes() for each in ("go.mod", "go.sum")}
    texts |= {each: path.read_bytes() for each, path in added.items()}
    entry = store.entry("hami", version, digest(texts))
    with store.lock(print):
        if store.read(entry) is None:
            staged, overlay = store.stage(), store.stage() / "overlay.json"
            placed = {str(source / "cmd" / name / each): str(path) for each, path in added.items()}
            overlay.write_text(json.dumps({"Replace": placed}), encoding="utf-8")
            output = staged / name
            arguments = ("build", "-overlay", str(overlay), "-o", str(output), f"./cmd/{name}")
            _run_command(source, golang.find_go(print), *arguments, native=True)
            store.publish(staged, Tool(name, version, "go module", output), entry)
    return entry / name


def build_crio() -> Path:
    """Build CRI-O; return the path of the daemon."""
    return _build_part(CRI_O)["crio"]


def build_etcd_tools() -> dict[str, Path]:
    """Build etcd's client and its tool for files; return their paths by program name."""
    return _build_part(ETCDCTL)


def build_kube_vip() -> dict[str, Path]:
    """Build kube-vip; return its path by program name."""
    return _build_part(KUBE_VIP)


def build_kubernetes(version: str) -> dict[str, Path]:
    """Build all programs of one Kubernetes version; return their paths by program name."""
    return _build_part(kubernetes(version))


def _build_part(real_part: RealPart) -> dict[str, Path]:
    store = Store(cache_dir() / "real")
    source = real_part.folder
    texts = {
        str(file.relative_to(source)): file.read_bytes()
        for file in sorted(source.rglob("*"))
        if file.is_file()
    }
    settings = " ".join(
        (*FLAGS, SHARED, *real_part.packages, *real_part.stamps, *real_part.stamps.values())
    )
    settings += real_part.tags
    entry = store.entry(
        real_part.module, real_part.version, digest({**texts, "settings": settings})
    )
    if store.read(entry) is None:
        with store.lock(print):
            if store.read(entry) is None:
                _publish_part(real_part, store, entry)
    return {path.name: path for path in entry.iterdir() if path.suffix != ".json"}


def _publish_part(real_part: RealPart, store: Store, entry: Path) -> None:
    print(f"real parts: building {real_part.module} {real_part.version}", flush=True)
    staged = store.stage()
    if real_part is MOCK:
        _build_mock(store.stage(), staged)
    else:
        _run_go(real_part, real_part.folder, "-o", f"{staged}/", *real_part.packages)
    first = min(path.name for path in staged.iterdir())
    store.publish(staged, Tool(first, real_part.version, "go module", staged / first), entry)


def _build_mock(work: Path, staged: Path) -> None:
    shutil.copytree(ROOT / MOCK.module, work, dirs_exist_ok=True)
    header = (_module_files(MOCK.module, f"{NVIDIA}/go-nvml") / "pkg/nvml/nvml.h").read_text()
    (work / "stubs.c").write_text(stubs(header))
    _run_go(MOCK, work, "-buildmode=c-shared", "-o", str(staged / LIBRARY), ".")
    staged.joinpath("libnvidia-ml.so.h").unlink(missing_ok=True)
    for header_file in staged.glob("*.h"):
        header_file.unlink()
    _run_go(MOCK, work, "-o", str(staged / "probe"), "./probe")


def stubs(header: str) -> str:
    """Return C source of stubs for the NVML functions that the mock library lacks.

    Each stub returns "not supported" (3). The stubs are weak symbols, so that the mock's own
    functions take precedence. Without the stubs the library would not load: all symbols are bound
    at load time, and NVIDIA's Go binding refers to all of them.
    """
    names = dict.fromkeys(_FUNCTION.findall(header))
    lines = (f"__attribute__((weak)) int {name}(void) {{ return 3; }}" for name in names)
    return "\n".join(("// Functions of nvml.h that the mock does not have.", *lines, ""))


def _run_go(real_part: RealPart, folder: Path, *arguments: str) -> None:
    stamped = (f"-X {name}={value}" for name, value in real_part.stamps.items())
    extern = (f"'-extldflags={_LAZY}'",) if real_part.native else ()
    tags = (f"-tags={real_part.tags}",) if real_part.tags else ()
    flags = ("-ldflags=" + " ".join(("-s", "-w", *extern, *stamped)), *tags, *FLAGS)
    _run_command(
        folder, golang.find_go(print), "build", *flags, *arguments, native=real_part.native
    )


def _run_command(folder: Path, go: Path, *arguments: str, native: bool = False) -> str:
    environment = {**golang.environment(), "CGO_ENABLED": "1" if native else "0"}
    if "-buildmode=c-shared" in arguments:
        environment["CGO_LDFLAGS"] = SHARED
    done = subprocess.run(
        [str(go), *arguments],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=LIMIT,
        check=False,
    )
    if done.returncode:
        tail = "\n".join(done.stderr.splitlines()[-12:])
        raise BuildError(
            f"real parts, {folder.name}: go {arguments[0]} ended with {done.returncode}; "
            f"wanted: 0; cure: see below\n{tail}"
        )
    return done.stdout
