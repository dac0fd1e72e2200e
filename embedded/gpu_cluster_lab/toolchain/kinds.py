"""Build Pulumi's Kubernetes plugin with a Go SDK that has no Go type for each Kubernetes kind.

``ConfigGroup``, ``ConfigFile`` and ``Chart`` (v4) register each object of a manifest with one
function of the SDK, ``RegisterResource`` in ``yaml/v2/kinds.go``. Its switch statement uses the Go
type of every kind that Kubernetes ever had, and so 90 generated packages are compiled: a third of a
full build of the toolchain. The plugin reads nothing from those types (provider/v4
``pkg/provider/yaml/v2/yaml.go`` keeps the resource as a reference). So the build uses a copy of the
SDK, made from the verified module, in which ``go/kinds/register.go`` replaces that function. It
registers the same token with a single type.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from gpu_cluster.machine.tool import ToolchainError

from .modules import ROOT, SDK, Module

_PACKAGES = ("", "utilities", "helm/v4", "yaml/v2")
_KINDS = Path("go/kubernetes/yaml/v2/kinds.go")
_REGISTER = ROOT / "kinds" / "register.go"
_LISTS = re.compile(r"^func IsListKind\(.*?^\}$", re.MULTILINE | re.DOTALL)
_CASE = re.compile(
    r'case "([^":,]*)/(\w+)":\s+var res [\w.]+\s+err := ctx\.RegisterResource\("(.*?)"'
)


def write_sdk(module: Module, source: Path, folder: Path) -> Path:
    """Copy the SDK packages that the plugin uses, and write a go.mod that refers to the copy.

    Args:
        module: The Go module that contains the Kubernetes plugin.
        source: Folder of the SDK's module in Go's module cache.
        folder: The target folder.

    Returns:
        Path of the go.mod for ``go build -modfile``; its go.sum is in the same folder.

    Raises:
        ToolchainError: The SDK registers a kind under another token than ``go/kinds/register.go``.
    """
    copy = folder / "sdk"
    for name in _PACKAGES:
        target = copy / "go" / "kubernetes" / name
        target.mkdir(parents=True)
        for file in (source / "go" / "kubernetes" / name).glob("*.go"):
            shutil.copyfile(file, target / file.name)
    shutil.copyfile(source / "go.mod", copy / "go.mod")
    (copy / _KINDS).write_text(_lists(source / _KINDS), encoding="utf-8")
    shutil.copyfile(_REGISTER, copy / _KINDS.with_name(_REGISTER.name))
    modfile = folder / "go.mod"
    own_modules = (module.folder / "go.mod").read_text(encoding="utf-8")
    modfile.write_text(f"{own_modules}\nreplace {SDK} => {copy}\n", encoding="utf-8")
    shutil.copyfile(module.folder / "go.sum", folder / "go.sum")
    return modfile


def _lists(kinds: Path) -> str:
    """Return the text of the SDK's ``kinds.go`` without its function ``RegisterResource``."""
    text = kinds.read_text(encoding="utf-8")
    cases, lists = _CASE.findall(text), _LISTS.search(text)
    other_tokens = [token for api, kind, token in cases if token != _token(api, kind)]
    if (
        not cases
        or len(cases) != text.count("ctx.RegisterResource(") - 1
        or other_tokens
        or not lists
    ):
        form = other_tokens[0] if other_tokens else "another form"
        raise ToolchainError(
            f"{kinds}: found {form}, wanted kubernetes:<group>:<kind> in each of its cases; "
            f"cure: adapt `_token` in {__file__} and {_REGISTER} to it"
        )
    return f'package v2\n\nimport "fmt"\n\n{lists[0]}\n'


def _token(api: str, kind: str) -> str:
    return f"kubernetes:{'core/v1' if api == 'v1' else api}:{kind}"
