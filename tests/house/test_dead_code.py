"""Each function, class, method and constant of the project is used somewhere."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from vulture import Vulture

ROOT = Path(__file__).parents[2]
PRODUCT = (
    *("components", "embedded", "policies", "maintenance", "package"),
    "__main__.py",
)
SIMULATOR = "embedded/gpu_cluster_lab/simulator/"
CONFIDENCE = 60
"""What vulture is as sure of as it can be where names are looked up by attribute."""
REGISTERED = ["@computed_field*", "@field_validator*", "@model_validator*", "@pytest.fixture*"]
"""Decorators that hand a function to a library."""
CALLED_BY_OTHERS = {
    "__getattr__": "Python calls it for a name that a module lacks",
    "EXAMPLE": "gpu_rules.rules.discovery reads it from each module of a rule",
    "RULE": "gpu_rules.rules.discovery reads it from each module of a rule",
    "TWIN": "gpu_rules.rules.discovery reads it from each module of a rule",
    "begin_auth": "asyncssh calls it on a server",
    "construct": "pulumi.provider calls it on a provider",
    "do_HEAD": "http.server calls it",
    "do_POST": "http.server calls it",
    "ignore_aliases": "PyYAML calls it on a writer",
    "intercept_service": "gRPC calls it on an interceptor",
    "log_message": "http.server calls it",
    "on_config": "mkdocs calls it in a module of hooks",
    "on_files": "mkdocs calls it in a module of hooks",
    "on_page_markdown": "mkdocs calls it in a module of hooks",
    "auth_banner_received": "asyncssh calls it on a client",
    "connection_made": "asyncssh calls it on a client",
    "kbdint_auth_requested": "asyncssh calls it on a client",
    "password_auth_requested": "asyncssh calls it on a client",
    "public_key_auth_requested": "asyncssh calls it on a client",
    "validate_host_public_key": "asyncssh calls it on a client",
    "print_completion": "gpu_cluster.commands.verbs names it",
    "run_rules": "gpu_cluster.commands.verbs names it",
    "yaml_implicit_resolvers": "PyYAML reads it from a loader",
}
"""Names that a library or a lookup by name uses, each with who does."""


def unused(*paths: Path) -> Iterator[tuple[Path, str]]:
    """Yield file and name of each definition in these paths that is not used in them.

    Fields of classes are omitted, because pydantic and JSON read them.
    """
    finder = Vulture(ignore_decorators=REGISTERED, ignore_names=list(CALLED_BY_OTHERS))
    finder.scavenge([str(path) for path in paths])
    for item in finder.get_unused_code(min_confidence=CONFIDENCE):
        file = Path(item.filename)
        line = file.read_text(encoding="utf-8").splitlines()[item.first_lineno - 1]
        if item.typ not in ("variable", "attribute") or not line[:1].isspace():
            yield file, item.name


def of_ours(*folders: str) -> list[str]:
    # Plugins of the toolchain are omitted, because the Pulumi engine and asyncssh call their
    # methods.
    return [
        f"{file.relative_to(ROOT)}: {name}"
        for file, name in unused(*(ROOT / folder for folder in folders))
        if not file.is_relative_to(ROOT / "embedded" / "gpu_cluster_lab" / "toolchain" / "plugins")
        and not file.is_relative_to(ROOT / "tests")
    ]


def test_the_product_uses_each_name_that_it_defines() -> None:
    found = of_ours(*PRODUCT, "lab")
    assert [line for line in found if not line.startswith(("lab/", SIMULATOR))] == []


def test_the_lab_or_a_test_uses_each_name_of_the_lab() -> None:
    assert of_ours(*PRODUCT, "lab", "tests") == []


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("LIMIT = 1\n", ["LIMIT"]),
        ("def f(): ...\nf()\n", []),
        ("class A:\n    field: int = 1\n    def method(self): ...\nA()\n", ["method"]),
    ],
)
def test_what_nothing_uses_is_found(tmp_path: Path, text: str, names: list[str]) -> None:
    (tmp_path / "module.py").write_text(text)
    assert [name for _, name in unused(tmp_path)] == names
