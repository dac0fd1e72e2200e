"""Settings of stack files in the pages of the documentation: code blocks, and names in the text."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from gpu_cluster.loading.loader import load
from gpu_rules.faults import ConfigError
from maintenance.cluster_schema import cluster_schema
from tests.proofs.docs.pages import ROOT, Block, blocks

Json = dict[str, Any]
KEY = "gpu-cluster:cluster"
STACK_FILE = ROOT / "Pulumi.dev.yaml"
"""The stack file to which the settings of a page are added."""
_NAME = re.compile(r"`([a-z][A-Za-z]*(?:\[\])?(?:\.[A-Za-z0-9*]+(?:\[\])?)+)(?:: [^`]*)?`")
_KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIEfxFSAF45h/u4FWcTpIO9dleHVOhDTjHvn4WRhQJDYQ"
"""The public key of the simulated host gpu-1, as in `Pulumi.dev.yaml`."""
_ENDINGS = ("md", "py", "yaml", "yml", "json", "sh", "toml", "html", "file", "list", "log", "io")


def declared(file: Path = STACK_FILE) -> Json:
    """Return the settings of a stack file as they stand there."""
    settings: Json = yaml.safe_load(file.read_text(encoding="utf-8"))["config"][KEY]
    return settings


def whole_file(block: Block) -> tuple[str, str] | None:
    """Return stack and text of a YAML block that is a whole stack file, else None.

    A comment ``# Pulumi.lab.yaml`` in the block's first line names the stack. A host key that ends
    with `…` is replaced by one that is well-formed.
    """
    name = re.match(r"# Pulumi\.(\w+)\.yaml\n", block.text)
    if block.language != "yaml" or block.mark or name is None:
        return None
    return name[1], re.sub(r"ssh-ed25519 AAAA…", _KEY, block.text)


def of_block(block: Block) -> Json | None:
    """Return the settings of a YAML block, or None if the block is not applied to a stack file.

    Raises:
        ValueError: The block has no settings of a stack file, and no mark says why.
    """
    if block.language != "yaml" or block.mark or whole_file(block):
        return None
    content = yaml.safe_load(block.text)
    if not isinstance(content, dict):
        raise ValueError(f"{block.page}:{block.line}: no mapping")
    unknown = set(content) - set(cluster_schema()["properties"])
    if unknown:
        raise ValueError(f"{block.page}:{block.line}: no settings: {', '.join(sorted(unknown))}")
    return dict(content)


def merged(settings: Mapping[str, Any], added: Mapping[str, Any]) -> Json:
    """Return settings with the sections of a block in place of sections of the same name."""
    return {**settings, **added}


def faults(path: Path) -> list[str]:
    """Return what is wrong with the YAML blocks of a page, each added to those above it."""
    settings = declared()
    found = []
    for block in blocks(path):
        try:
            if (file := whole_file(block)) is not None:
                load(yaml.safe_load(file[1])["config"][KEY])
            elif (added := of_block(block)) is not None:
                settings = merged(settings, added)
                load(settings)
        except (ConfigError, ValueError, yaml.YAMLError) as error:
            found.append(f"{block.page}:{block.line}: {error}")
    return found


def unknown_names(text: str) -> list[str]:
    """Return the settings that a page names in code, such as `rollout.evict`, and that are none."""
    schema = cluster_schema()
    found = []
    for name in _NAME.findall(text):
        parts = name.replace("[]", "").split(".")
        named = parts[0] in schema["properties"] and parts[-1] not in _ENDINGS
        if named and not _is_setting(schema, schema["$defs"], parts):
            found.append(name)
    return found


def _is_setting(schema: Json, models: Json, parts: list[str]) -> bool:
    if not parts or parts == ["*"]:
        return True
    for each in _choices(schema, models):
        if parts[0] in each.get("properties", {}):
            if _is_setting(each["properties"][parts[0]], models, parts[1:]):
                return True
        elif isinstance(each.get("additionalProperties"), dict):
            if _is_setting(each["additionalProperties"], models, parts[1:]):
                return True
        elif "properties" not in each and each.get("type") == "object":
            return True
    return False


def _choices(schema: Json, models: Json) -> Iterator[Json]:
    """Yield the schemas that a value may have: behind references, choices and lists."""
    if "$ref" in schema:
        yield from _choices(models[schema["$ref"].rpartition("/")[2]], models)
    for each in (*schema.get("anyOf", ()), *schema.get("oneOf", ()), *schema.get("allOf", ())):
        yield from _choices(each, models)
    if isinstance(schema.get("items"), dict):
        yield from _choices(schema["items"], models)
    yield schema
