"""Run `gpu-cluster support-bundle`: collect diagnostics of a stack in one archive.

It only reads, with the rights of a preview. A part that can't be read is left out, and the list of
contents says why. Secrets are left out by the mark that the engine gives them, however they are
spelled: `secure` in the stack file, the engine's signature in the state. Texts without such a mark
are left out if their key says that they are secret, such as `password`. Of pods and nodes only
named fields are taken, so that no environment variable and no command gets into the archive.
Secrets of this command's own environment are replaced in all texts, also in reasons why a part is
left out, and so are user names and passwords in addresses.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import os
import platform
import re
import subprocess
import sys
import tarfile
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from itertools import chain
from pathlib import Path
from typing import Any

from gpu_cluster.base import yaml_file
from gpu_cluster.base.confidential import in_plain_text, is_confidential
from gpu_cluster.base.model import Model
from gpu_cluster.commands import status, who
from gpu_cluster.commands.environment import variables
from gpu_cluster.commands.files import new_file
from gpu_cluster.commands.output import apart, say
from gpu_cluster.commands.preview_state import PROVIDER_KEYS, pulumi
from gpu_cluster.commands.project import ROOT
from gpu_cluster.commands.reading import reading
from gpu_cluster.commands.stack import Stack
from gpu_cluster.commands.usage import Listed, Usage
from gpu_cluster.commands.usage import listed as listed_objects
from gpu_cluster.desired.resolve import Desired, resolve
from gpu_cluster.kubernetes.api import Client, connect
from gpu_cluster.kubernetes.gather import gather
from gpu_cluster.kubernetes.progress import renewed_by_progress
from gpu_cluster.machine.tool import ToolchainError
from gpu_cluster.platforms.own_namespaces import OwnNamespace
from gpu_cluster.property_values import is_secret
from gpu_rules.faults import ConfigError, FaultError, InputError, PartError
from gpu_rules.printable import counted, printable

Json = dict[str, Any]

FILE = "support-{stack}.tar.gz"
LARGEST = 16 * 1024 * 1024
"""Maximum number of bytes of one part; a larger one is left out."""
SECONDS = 60.0
"""Time limit for all requests to the API server together."""
LONGEST = 1000
"""Maximum number of characters of an event's message and of a container's last message."""
SECRET = "[secret]"  # noqa: S105
"""Text in place of a secret."""
SHORTEST = 8
"""Minimum number of characters of an environment variable's value that is hidden as a secret."""
WITH_USER = re.compile(r"(?<=://)[^/\s?#\"'@]{1,500}@")
"""User name and password of an address (RFC 3986, section 3.2.1)."""
OURS = "gpu-cluster/"
"""Beginning of the annotations that this program writes."""
FAULTS = (ConfigError, FaultError, InputError, OSError, ValueError, subprocess.SubprocessError)
"""Errors of a part that can't be read."""


class Entry(Model):
    """A part of the archive.

    Attributes:
        name: Name of its file.
        what: Description of the part's content.
        size: Number of bytes; 0 if it is left out.
        left_out: Why it is left out. Empty: it is in the archive.
    """

    name: str
    what: str
    size: int = 0
    left_out: str = ""


class Contents(Model):
    """The contents of an archive.

    Attributes:
        version: Version of the format.
        command: Name of the command, as in the JSON output of all commands.
        file: Path of the archive. Empty: only listed, not written.
        entries: The parts.
    """

    version: str = "v1"
    command: str = "support-bundle"
    stack: str
    file: str = ""
    entries: tuple[Entry, ...]


@dataclass(frozen=True)
class Part:
    """A part to collect: its file name, a description, and the function that makes its text."""

    name: str
    what: str
    text: Callable[[], str]


def stack_text(stack: Stack) -> str:
    """Return the stack file with a placeholder for each secret.

    Raises:
        ConfigError: The file holds a secret in plain text, which has no mark.
        InputError: The file can't be read as YAML.
    """
    document = yaml_file.read(stack.file).value
    if not isinstance(document, dict):
        raise PartError("no mapping")
    if faults := [*in_plain_text(document.get("config") or {})]:
        raise ConfigError(faults, stack.file.name)
    public_keys = {key: value for key, value in document.items() if key not in PROVIDER_KEYS}
    return yaml_file.dump(without_marked(public_keys, _is_encrypted))


def _is_encrypted(value: object) -> bool:
    """Return whether a value of a stack file is encrypted."""
    return isinstance(value, dict) and value.keys() == {"secure"}


def without_marked(value: Any, is_marked: Callable[[Any], bool] = is_secret) -> Any:
    """Return a document with a placeholder for each secret value.

    Args:
        value: The document, or a part of it.
        is_marked: Whether a value is marked as secret. By default by the mark that the engine's
            state has.
    """
    if is_marked(value):
        return SECRET
    if isinstance(value, dict):
        return {
            key: SECRET
            if _is_plain_secret(key, item, value.get("name"))
            else without_marked(item, is_marked)
            for key, item in value.items()
        }
    if isinstance(value, list):
        return [without_marked(item, is_marked) for item in value]
    return value


def _is_plain_secret(key: object, item: object, name: object) -> bool:
    """Return whether the name of a key or variable shows that its unmarked value is a secret.

    Args:
        key: Key of the text. A key that ends in `secret` holds the name of a Kubernetes Secret.
        item: The text, or another value.
        name: Value of the key `name` in the same mapping: the name of an environment variable.
    """
    if not isinstance(item, str):
        return False
    setting_name = str(name) if key == "value" else str(key)
    return is_confidential(setting_name) and not setting_name.lower().endswith(
        ("secret", "secretname")
    )


def own_secrets(environment: Mapping[str, str]) -> frozenset[str]:
    """Return the secrets in environment variables, and in the files that such variables name.

    A variable is one of these if its name says so (`is_confidential`), or ends in `_KEY`.
    """
    secrets: set[str] = set()
    for name, value in environment.items():
        if not is_confidential(name) and not name.removesuffix("_FILE").endswith("_KEY"):
            continue
        if name.endswith("_FILE"):
            with contextlib.suppress(OSError, ValueError):
                lines = Path(value).read_text()[:LARGEST].splitlines()
                secrets.update(line.strip() for line in lines if not line.startswith("-----"))
        else:
            secrets.add(value.strip())
    return frozenset(secret for secret in secrets if len(secret) >= SHORTEST)


def hidden(text: str, secrets: Collection[str]) -> str:
    """Return a text with a placeholder for each known secret, and for users in addresses.

    A secret is found as it is and as JSON and YAML escape it.
    """
    forms = {form for secret in secrets for form in (secret, json.dumps(secret)[1:-1])}
    for secret_form in sorted(forms, key=len, reverse=True):
        text = text.replace(secret_form, SECRET)
    return WITH_USER.sub(f"{SECRET}@", text)


def state_text(stack: Stack) -> str:
    """Return the engine's state without its secrets, which are marked in it."""
    exported = pulumi(
        ROOT, {**os.environ, **variables(stack)}, "stack", "export", "--stack", stack.name
    )
    state: Json = without_marked(json.loads(exported))
    state.get("deployment", {}).pop("secrets_providers", None)
    return _json_text(state)


def versions_text() -> str:
    """Return versions of this machine's software that a run depends on."""
    return _json_text(
        {"python": sys.version, "system": platform.platform(), "machine": platform.machine()}
    )


def node_of(node: Json) -> Json:
    """Return the fields of a Node that describe its labels, taints and resources."""
    meta, state = node["metadata"], node.get("status") or {}
    annotations = meta.get("annotations") or {}
    return {
        "name": meta["name"],
        "labels": meta.get("labels") or {},
        "annotations": {k: v for k, v in annotations.items() if k.startswith(OURS)},
        "taints": (node.get("spec") or {}).get("taints") or [],
        "unschedulable": bool((node.get("spec") or {}).get("unschedulable")),
        **{key: state.get(key) for key in ("capacity", "allocatable", "conditions", "nodeInfo")},
    }


def pod_of(pod: Json) -> Json:
    """Return the fields of a pod that show its node and the states of its containers."""
    meta, state = pod["metadata"], pod.get("status") or {}
    return {
        "namespace": meta.get("namespace"),
        "name": meta["name"],
        "node": (pod.get("spec") or {}).get("nodeName"),
        "phase": state.get("phase"),
        "conditions": state.get("conditions"),
        "containers": [
            {
                "name": container.get("name"),
                "image": container.get("image"),
                "restarts": container.get("restartCount"),
                "state": _container_state(container.get("state")),
                "last": _container_state(container.get("lastState")),
            }
            for kind in ("initContainerStatuses", "containerStatuses")
            for container in state.get(kind) or []
        ],
    }


def _container_state(state: Any) -> Json:
    """Return a container's state with the reason and the exit code, without its output."""
    public_fields = ("reason", "exitCode", "signal", "startedAt", "finishedAt")
    return {
        kind: {key: value for key, value in details.items() if key in public_fields}
        for kind, details in (state or {}).items()
        if isinstance(details, dict)
    }


def event_of(event: Json) -> Json:
    """Return the fields of an event: its message, and the object that it is about."""
    about = event.get("involvedObject") or {}
    return {
        "object": f"{about.get('kind')} {about.get('namespace')}/{about.get('name')}",
        "type": event.get("type"),
        "reason": event.get("reason"),
        "message": printable(str(event.get("message") or ""), LONGEST),
        "count": event.get("count"),
        "last": event.get("lastTimestamp") or event.get("eventTime"),
    }


@dataclass(frozen=True)
class Seen:
    """Objects of the cluster that several parts of an archive need, read once.

    Attributes:
        objects: What is read of nodes, pods, ResourceClaims and ResourceSlices of the cluster.
        pods: Pods in the stack's namespaces.
        events: Events in the stack's namespaces.
        held: Who holds the GPUs, and how busy these are.
    """

    objects: Listed
    pods: tuple[Json, ...]
    events: tuple[Json, ...]
    held: Usage


async def observed(
    context: str,
    namespaces: Sequence[OwnNamespace],
    read_usage: Callable[[Client, Listed], Awaitable[Usage]],
) -> Seen:
    """Read the cluster; users' events are left out.

    Args:
        namespaces: Namespaces that the stack creates.
        read_usage: Function that reads who holds the GPUs.
    """
    limit = asyncio.timeout(SECONDS)
    async with limit, connect(context) as client:
        with renewed_by_progress(limit, SECONDS):
            objects = await listed_objects(client)
            pods = await gather(
                lambda space: client.list(f"namespaces/{space.name}/pods"), namespaces
            )
            events = await gather(
                lambda space: client.list(f"namespaces/{space.name}/events"), namespaces
            )
            return Seen(
                objects,
                tuple(chain.from_iterable(pods)),
                tuple(chain.from_iterable(events)),
                await read_usage(client, objects),
            )


def _json_text(value: Any) -> str:
    return json.dumps(value, indent=2, sort_keys=True) + "\n"


def _json_rows(items: Iterable[Json]) -> str:
    """Return a JSON list with one line per object: large clusters have thousands of objects."""
    lines = ",\n".join(json.dumps(item, sort_keys=True) for item in items)
    return f"[\n{lines}\n]\n"


def parts(stack: Stack) -> tuple[Part, ...]:
    """Return the parts of a stack's archive."""

    @cache
    def desired() -> Desired:
        reading(stack)
        return resolve(stack.cluster, stack.name)

    @cache
    def read_once() -> Seen:
        desired_state = desired()
        read_usage = partial(
            who.held, desired_state.stack, desired_state.scheduling, desired_state.validation
        )
        return asyncio.run(observed(desired_state.context, desired_state.namespaces, read_usage))

    def holders() -> str:
        return read_once().held.model_dump_json(by_alias=True, indent=2) + "\n"

    return (
        Part("versions.json", "versions of this machine's software", versions_text),
        Part("stack.yaml", "the stack file, without secrets", lambda: stack_text(stack)),
        Part("state.json", "the engine's state, without secrets", lambda: state_text(stack)),
        Part("status.json", "drift, due and faults", lambda: status.document_of(stack).write()),
        Part("who.json", "which pods hold which GPUs", holders),
        Part(
            "nodes.json",
            "labels, taints, conditions",
            lambda: _json_rows(map(node_of, read_once().objects.nodes)),
        ),
        Part("pods.json", "pods of the stack", lambda: _json_rows(map(pod_of, read_once().pods))),
        Part(
            "events.json",
            "events of the stack",
            lambda: _json_rows(map(event_of, read_once().events)),
        ),
    )


def collected(
    bundle_parts: Sequence[Part], secrets: Collection[str] = ()
) -> Iterator[tuple[Entry, bytes]]:
    """Yield each part with its content; empty if the part is left out.

    Args:
        secrets: Texts to replace in each part and in the reasons for parts that are left out.
    """
    for bundle_part in bundle_parts:
        entry = Entry(name=bundle_part.name, what=bundle_part.what)
        try:
            content = hidden(bundle_part.text(), secrets).encode()
        except (*FAULTS, ToolchainError, SystemExit) as error:
            reason = printable(hidden(str(error), secrets), LONGEST) or type(error).__name__
            yield entry.model_copy(update={"left_out": reason}), b""
            continue
        if len(content) > LARGEST:
            reason = f"{len(content)} bytes, at most {LARGEST}"
            yield entry.model_copy(update={"left_out": reason}), b""
            continue
        yield entry.model_copy(update={"size": len(content)}), content


def archive(contents: Contents, files: Mapping[str, bytes]) -> bytes:
    """Return the archive: first the list of contents, then the parts, without owners and times."""
    listed = contents.model_dump_json(by_alias=True, indent=2) + "\n"
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        for name, content in {"contents.json": listed.encode(), **files}.items():
            member = tarfile.TarInfo(f"support-{contents.stack}/{name}")
            member.size, member.mode = len(content), 0o600
            tar.addfile(member, io.BytesIO(content))
    return buffer.getvalue()


def lines(contents: Contents) -> Iterator[str]:
    """Yield one line per part, and a line about the whole archive."""
    for entry in contents.entries:
        size = f"left out: {entry.left_out}" if entry.left_out else f"{entry.size} bytes"
        yield f"{entry.name}: {entry.what}: {size}"
    inside = counted(sum(not entry.left_out for entry in contents.entries), "part")
    file_text = printable(contents.file) or "nothing written"
    yield f"support-bundle: {inside} of {len(contents.entries)}, {file_text}"


def main(*, file: str = "", only_list: bool = False) -> None:
    """Print the archive's list of contents; write the archive unless only the list is wanted.

    Args:
        file: File of the archive; empty: `support-STACK.tar.gz`.
        only_list: Whether nothing is written.
    """
    stack = Stack.named()
    file_name = file or FILE.format(stack=stack.name)
    path = Path(file_name) if only_list else new_file("--file", file_name)
    with apart() as output:
        bundled = list(collected(parts(stack), own_secrets(os.environ)))
        contents = Contents(
            stack=stack.name,
            file="" if only_list else str(path),
            entries=tuple(entry for entry, _ in bundled),
        )
        for line in lines(contents):
            say(line)
        if not only_list:
            files = {entry.name: content for entry, content in bundled if not entry.left_out}
            path.unlink(missing_ok=True)
            with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as opened:
                opened.write(archive(contents, files))
        if output:
            output.write(contents.model_dump_json(by_alias=True, indent=2) + "\n")
