"""Read an inventory file, and the files of variables next to it.

Files are found by listing the folders `group_vars` and `host_vars`, so no name that an inventory
contains becomes part of a path.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from gpu_cluster.base import yaml_file
from gpu_cluster.commands.ansible import ini
from gpu_cluster.commands.ansible.inventory import ALL, Builder, Inventory, Variables
from gpu_cluster.settings.nodes.node_range import NODE_LIMIT
from gpu_rules.check.files import SUFFIXES
from gpu_rules.faults import ConfigError, Fault, InputError, show

SIZE_LIMIT = yaml_file.SIZE_LIMIT
_VAULT = "$ANSIBLE_VAULT"
_STATIC = (
    "write it out with Ansible: `ansible-inventory -i {} --list --yaml --output inventory.yaml`, "
    "and name that file"
)
_GROUP = "{hosts: {gpu-1: {ansible_host: 192.0.2.1}}}"
_GROUPS = f"{{gpu: {_GROUP}}}"


def read(path: Path) -> Inventory:
    """Return the inventory in a file in Ansible's INI or YAML form, with all variables.

    Raises:
        ConfigError: The file can't be read, or is no static inventory.
    """
    try:
        inventory = _read_file(path)
    except InputError as error:
        raise ConfigError([_inventory_fault(error)], path.name) from None
    folder = path.parent
    return Inventory(
        groups=inventory.groups,
        hosts=inventory.hosts,
        group_files=_read_variables(folder / "group_vars", {*inventory.groups, ALL}),
        host_files=_read_variables(folder / "host_vars", inventory.hosts.keys()),
    )


def _inventory_fault(error: InputError) -> Fault:
    return Fault("the inventory", error.found, error.wanted, error.cure, line=error.line)


def _read_file(path: Path) -> Inventory:
    if path.is_dir():
        raise InputError("a folder", "one file", "name the file in it that lists the hosts")
    text = _read_text(path)
    if text.startswith("#!"):
        raise InputError("a program", "a static inventory", _STATIC.format(path.name))
    if path.suffix in SUFFIXES:
        return parse_yaml(text, path.name)
    if path.suffix:
        return ini.parse(text)
    try:
        return parse_yaml(text, path.name)
    except InputError:
        return ini.parse(text)


def _read_text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            raw = file.read(SIZE_LIMIT + 1)
    except OSError as error:
        reason = (error.strerror or "an error").lower()
        raise InputError(reason, "a file that can be read", f"check the name {path}") from None
    if len(raw) > SIZE_LIMIT:
        raise InputError(f"more than {SIZE_LIMIT} bytes", "an inventory", f"check the name {path}")
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise InputError("bytes that are not UTF-8", "UTF-8", "save it as UTF-8", line) from None


def parse_yaml(text: str, name: str = "FILE") -> Inventory:
    """Return the inventory that a YAML or JSON text declares.

    The text may also be the output of `ansible-inventory --list`, with or without `--yaml`.

    Args:
        text: The text of the file.
        name: Name of the file, for messages.

    Raises:
        InputError: The text is not a static inventory.
    """
    document = yaml_file.parse(text, tags=True).value
    if not isinstance(document, dict):
        raise InputError(show(document), "a mapping of groups", f"write {_GROUPS}, for example")
    if "plugin" in document:
        raise InputError(
            "the settings of an inventory plugin", "a static inventory", _STATIC.format(name)
        )
    builder = Builder(NODE_LIMIT)
    meta = document.pop("_meta", None)
    try:
        for group, content in document.items():
            _add_group(builder, str(group), content, ())
        # `ansible-inventory --list` prints the hosts' variables under `_meta.hostvars`.
        for host, variables in _name_pairs(_string_mapping(meta).get("hostvars")):
            builder.set(host, _string_mapping(variables))
        return builder.inventory
    except ValueError as error:
        raise InputError(str(error), "an inventory", "correct it, or name a smaller one") from None


def _add_group(builder: Builder, name: str, content: object, above: tuple[str, ...]) -> None:
    """Add one group and its child groups to a builder.

    Raises:
        InputError: The content is no mapping with hosts, vars or children.
        ValueError: A range is malformed, or there are too many hosts or groups.
    """
    builder.group(name)
    if content is None:
        return
    path = show(".".join((*above, name)))
    if not isinstance(content, dict):
        raise InputError(
            f"{show(content)} at {path}",
            "a group: a mapping with hosts, vars or children",
            f"write {_GROUP} there, for example",
        )
    for pattern, variables in _name_pairs(content.get("hosts")):
        try:
            builder.add(name, pattern, _string_mapping(variables))
        except ValueError as error:
            raise ValueError(f"{show(pattern)} in {path}: {error}") from None
    builder.set_group(name, _string_mapping(content.get("vars")))
    for child, below in _name_pairs(content.get("children")):
        builder.child(name, child)
        _add_group(builder, child, below, (*above, name))


def _name_pairs(value: object) -> Iterator[tuple[str, object]]:
    """Yield a mapping's items; for a list or a string, each name with the content None."""
    if isinstance(value, dict):
        yield from ((str(key), content) for key, content in value.items())
    elif isinstance(value, list):
        yield from ((str(item), None) for item in value)
    elif isinstance(value, str):
        yield value, None


def _string_mapping(value: object) -> dict[str, Any]:
    return {str(key): item for key, item in value.items()} if isinstance(value, dict) else {}


def _read_variables(folder: Path, names: Collection[str]) -> Mapping[str, Variables]:
    """Return the variables in a folder `group_vars` or `host_vars`, by name of group or host.

    Args:
        folder: The folder, which may be missing.
        names: Names of the inventory's groups or hosts; files of other names are not read.
    """
    variables_by_name: dict[str, dict[str, Any]] = {}
    for entry in _folder_entries(folder):
        name = entry.stem if entry.suffix in SUFFIXES else entry.name
        for file in _variable_files(entry) if name in names else ():
            variables_by_name.setdefault(name, {}).update(_variables_of(file))
    return variables_by_name


def _folder_entries(folder: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir())
    except OSError:
        return []


def _variable_files(entry: Path) -> Iterator[Path]:
    """Yield a group's or host's files of variables: a single file, or all files in a folder."""
    if not entry.is_dir():
        yield entry
        return
    for parent, folders, files in os.walk(entry):
        folders.sort()
        yield from (Path(parent) / file for file in sorted(files) if _is_vars(file))


def _is_vars(name: str) -> bool:
    """Return True if Ansible reads a file of this name: YAML or no suffix, and not hidden."""
    suffix = Path(name).suffix
    return not name.startswith(".") and not name.endswith("~") and suffix in ("", *SUFFIXES)


def _variables_of(file: Path) -> dict[str, Any]:
    """Return the variables of one file; none if the file is encrypted.

    Raises:
        ConfigError: The file is no YAML.
    """
    try:
        text = _read_text(file)
        if text.startswith(_VAULT):
            return {}
        return _string_mapping(yaml_file.parse(text, tags=True).value)
    except InputError as error:
        raise ConfigError([_inventory_fault(error)], f"{file.parent.name}/{file.name}") from None
