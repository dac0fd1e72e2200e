"""Content of the evidence: an in-toto statement about a stack's validated GPUs. Pure.

Source of the format: in-toto/attestation, spec/v1/statement.md. Everything has bounds, unknown
fields are refused, and a JSON object with the same key twice is refused, because two readers could
take different values.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Annotated, Any, Final, Literal, TypeVar

from pydantic import (
    AfterValidator,
    ConfigDict,
    Field,
    FiniteFloat,
    StringConstraints,
    ValidationError,
)

from gpu_cluster.base.explain import first_error
from gpu_cluster.base.model import Model
from gpu_cluster.settings.nodes.devices import GPU_LIMIT
from gpu_rules.faults import Fault, FaultError, PartError
from gpu_rules.printable import printable

M = TypeVar("M", bound=Model)

TYPE: Final = "https://in-toto.io/Statement/v1"
PREDICATE: Final = "urn:gpu-cluster:validation-evidence:v1"
"""Type of the predicate, which says how to read it. Not an address that is opened."""
LARGEST = 32 * 1024 * 1024
"""Maximum number of bytes of an evidence file."""
NODES, FIGURES, FACTS = 5000, 5000, 64
"""Maximum numbers of nodes, of figures, and of facts of a node."""
MIG_LIMIT = 16
"""Maximum number of MIG devices of a GPU; NVIDIA's largest layouts have 7."""
TIME = "%Y-%m-%dT%H:%M:%SZ"


class EvidenceError(FaultError):
    """The evidence is not valid, or can't be made."""


def moment(text: str) -> datetime:
    """Return the time that a text such as `2026-11-26T12:00:00Z` names.

    Raises:
        ValueError: The text has another form, or names no time.
    """
    return datetime.strptime(text, TIME).replace(tzinfo=UTC)


def _validate_time(text: str) -> str:
    moment(text)
    return text


Name = Annotated[str, StringConstraints(min_length=1, max_length=253)]
Text = Annotated[str, StringConstraints(max_length=1000)]
Uuid = Annotated[str, StringConstraints(pattern=r"^(GPU|MIG)-[0-9A-Za-z/-]{8,128}$")]
Time = Annotated[str, StringConstraints(max_length=20), AfterValidator(_validate_time)]
Count = Annotated[int, Field(ge=0, le=GPU_LIMIT)]
Sha256 = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]


class Strict(Model):
    """Model of a JSON text that is not converted: the number 1 is not the text "1"."""

    model_config = ConfigDict(strict=True)


class NodeEvidence(Strict):
    """Validation of one node.

    Attributes:
        pool: Name of the node's pool in the stack file.
        declared: Number of GPUs that the stack file declares.
        computed: Number of GPUs that ran a kernel.
        simulated: Number of GPUs whose kernel was only simulated.
        deferred: Number of GPUs that ran no kernel, because other pods held them.
        since: Time of the last kernel; empty if none ran.
        devices: UUIDs of the GPUs that ran a kernel, each with the UUIDs of its MIG devices.
        facts: Facts under which the validation holds, such as the driver's version.
    """

    name: Name
    pool: Name
    declared: Count
    computed: Count
    simulated: Count
    deferred: Count
    since: Time | Literal[""]
    devices: Annotated[
        dict[Uuid, Annotated[tuple[Uuid, ...], Field(max_length=MIG_LIMIT)]],
        Field(max_length=GPU_LIMIT),
    ]
    facts: Annotated[dict[Name, Text], Field(max_length=FACTS)]


class Figure(Strict):
    """Result of a user-defined test on a node; the fields are those of the output `tests`."""

    test: Name
    node: Name
    pool: Name
    figure: FiniteFloat | None
    minimum: FiniteFloat | None
    problem: Text
    skipped: Text
    simulated: bool
    at: Time | Literal[""]


class Predicate(Strict):
    """Content of the evidence.

    Attributes:
        made: Time when the evidence was made.
        until: Time from which the evidence no longer holds.
        inspected: What was compared with the stack file: `all`, or `cluster` without the hosts.
        versions: Versions of the software, by its name.
        figures: Results of the user-defined tests.
    """

    stack: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_.-]{1,100}$")]
    made: Time
    until: Time
    inspected: Literal["all", "cluster"]
    versions: Annotated[dict[Name, Text], Field(max_length=FACTS)]
    nodes: Annotated[tuple[NodeEvidence, ...], Field(min_length=1, max_length=NODES)]
    figures: Annotated[tuple[Figure, ...], Field(max_length=FIGURES)]


class Digest(Strict):
    """Digest of a file."""

    sha256: Sha256


class Subject(Strict):
    """The file that the evidence is about: the stack file."""

    name: Name
    digest: Digest


class Statement(Strict):
    """An in-toto statement with one subject and this program's predicate."""

    type_: Literal["https://in-toto.io/Statement/v1"] = Field(alias="_type")
    subject: tuple[Subject]
    predicate_type: Literal["urn:gpu-cluster:validation-evidence:v1"]
    predicate: Predicate

    def text(self) -> bytes:
        """Return the statement as JSON, the same for the same content."""
        content = self.model_dump(mode="json", by_alias=True)
        return json.dumps(content, sort_keys=True, separators=(",", ":")).encode()


def statement(predicate: Predicate, file: str, sha256: str) -> Statement:
    """Return the statement about a stack file.

    Args:
        predicate: Content of the evidence.
        file: Name of the stack file.
        sha256: Digest of the stack file.
    """
    subject = Subject(name=file, digest=Digest(sha256=sha256))
    return Statement(type_=TYPE, subject=(subject,), predicate_type=PREDICATE, predicate=predicate)


def read(text: bytes) -> Statement:
    """Return the statement in a JSON text.

    Raises:
        EvidenceError: The text is not a statement of this form.
    """
    return parse_json_model(Statement, text, "statement")


def parse_json_model(model: type[M], text: bytes, place: str) -> M:
    """Return a JSON text as a model; refuse large texts and repeated keys.

    Args:
        model: Class of the model.
        text: The JSON text.
        place: Name of the text in messages.

    Raises:
        EvidenceError: The text does not have the model's form.
    """
    if len(text) > LARGEST:
        raise _malformed_statement(place, f"{len(text)} bytes, more than {LARGEST}")
    try:
        json.loads(text, object_pairs_hook=_refuse_repeated_keys)
        return model.model_validate_json(text, by_alias=True, by_name=False)
    except ValidationError as error:
        field_path, wrong = first_error(error)
        raise _malformed_statement(f"{place} {printable(field_path, 200)}".strip(), wrong) from None
    except (ValueError, RecursionError) as error:
        raise _malformed_statement(place, printable(str(error), 200)) from None


def _refuse_repeated_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return a JSON object's pairs as a dictionary.

    Raises:
        ValueError: A key occurs twice.
    """
    mapping = dict(pairs)
    if len(mapping) != len(pairs):
        raise PartError("a key that occurs twice in one object")
    return mapping


def _malformed_statement(place: str, found: str) -> EvidenceError:
    wanted = "a file as `gpu-cluster evidence` writes it"
    return EvidenceError(Fault(place, found, wanted, "get the file again from whoever made it"))
