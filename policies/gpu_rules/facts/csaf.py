"""Strict parser of NVIDIA's security bulletins, which are CSAF 2.0 documents.

The bulletins are in the GitHub repository NVIDIA/product-security. The `product_tree` of a bulletin
has three levels: the vendor NVIDIA, an architecture such as `Linux(R580)`, and a product. A product
has an entry for its affected versions and another for its fixed version; the entry's name is the
version range. `product_status` says for each CVE which entries are affected or fixed (OASIS CSAF
2.0, sections 3.2.2 and 3.2.3.9).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

from ..faults import Outside
from .floors import Floor, Software

Json = Mapping[str, Any]

BYTES = 4 * 1024 * 1024
"""Maximum size of a document that is read, in characters. NVIDIA's documents have up to 160 KB."""
DOCUMENTS = 5000
DEPTH = 8
_LEAVES = 5000
_PRODUCTS = {
    "Tesla": Software.DRIVER,
    "NVIDIA Container Toolkit": Software.TOOLKIT,
    "NVIDIA GPU Operator": Software.OPERATOR,
    "NVIDIA Kubernetes Device Plugin": Software.DEVICE_PLUGIN,
    "NVIDIA MIG Manager": Software.MIG_MANAGER,
    "DCGM": Software.DCGM,
    "DCGM Exporter": Software.DCGM_EXPORTER,
}
_BRANCH = re.compile(r"Linux\(R([0-9]{3})\)")
_PLAIN = re.compile(r"(Linux|All)(\([0-9.]{1,9}\))?")
_FIXED = re.compile(r"v?([0-9]{1,9}(?:\.[0-9]{1,9}){1,3})")
_AFFECTED = re.compile(
    r"(All (driver )?versions? (prior to|up to and including)|0\.0 +to) "
    r"v?[0-9]{1,9}(\.[0-9]{1,9}){1,3}( \([^()]{1,120}\))?"
)


class BulletinError(ValueError):
    """A security bulletin that the parser does not understand."""

    cure: ClassVar[str] = Outside(
        "compare the bulletin with its page at NVIDIA, and report a difference to NVIDIA"
    )


@dataclass(frozen=True, slots=True)
class _Leaf:
    part: Software
    branch: str
    product_id: str
    text: str


def bulletin(text: str) -> tuple[Floor, ...]:
    """Return the security floors in one bulletin: the first fixed version of each component.

    The result is empty if the bulletin affects no component of a GPU stack.

    Args:
        text: The bulletin, as a JSON document.

    Raises:
        BulletinError: The document is not a CSAF 2.0 advisory, or the versions of a component are
            written in an unknown form.
    """
    if len(text) > BYTES:
        raise BulletinError(f"{len(text)} characters, wanted at most {BYTES}")
    try:
        document = json.loads(text)
        head = document["document"]
        if (head["category"], head["csaf_version"]) != ("csaf_security_advisory", "2.0"):
            raise BulletinError("not a security advisory of CSAF 2.0")
        number, released = head["tracking"]["id"], head["tracking"]["current_release_date"][:10]
        leaves = tuple(_walk_products(document["product_tree"]["branches"], ()))
        return tuple(_read_borders(document["vulnerabilities"], leaves, number, released))
    except (KeyError, TypeError, AttributeError, IndexError, RecursionError) as error:
        raise BulletinError(f"{type(error).__name__}: {error}") from error
    except json.JSONDecodeError as error:
        raise BulletinError(f"not JSON: {error}") from error


def _walk_products(branches: list[Json], path: tuple[str, ...]) -> Iterator[_Leaf]:
    """Yield the version entries of GPU stack components in the product tree of a bulletin.

    Args:
        branches: Branches of the tree at one level.
        path: Names of the enclosing branches, outermost first.
    """
    if len(path) > DEPTH or len(branches) > _LEAVES:
        raise BulletinError("a product tree that is deeper or wider than any known")
    for branch in branches:
        names = (*path, branch["name"])
        if "product" in branch and branch["category"] == "product_version":
            if len(names) != 3:
                raise BulletinError(f"a version {len(names)} levels deep, wanted 3")
            if place := _place_product(names[1], names[2]):
                product = branch["product"]
                yield _Leaf(*place, product["product_id"], product["name"])
        yield from _walk_products(branch.get("branches", []), names)


def _place_product(architecture: str, product: str) -> tuple[Software, str] | None:
    software = _PRODUCTS.get(product)
    if software is None:
        return None
    if software is Software.DRIVER:
        match = _BRANCH.fullmatch(architecture)
        return (software, match[1]) if match else None
    if _PLAIN.fullmatch(architecture):
        return software, ""
    raise BulletinError(f"{product} of the unknown architecture {architecture!r}")


def _read_borders(
    vulnerabilities: list[Json], leaves: tuple[_Leaf, ...], number: str, released: str
) -> Iterator[Floor]:
    by_branch: dict[tuple[Software, str], list[_Leaf]] = {}
    for leaf in leaves:
        by_branch.setdefault((leaf.part, leaf.branch), []).append(leaf)
    fixes: dict[str, set[str]] = {}
    affects: set[str] = set()
    for vulnerability in vulnerabilities:
        status = vulnerability["product_status"]
        affects.update(status.get("known_affected", []))
        for product_id in status.get("fixed", []):
            fixes.setdefault(product_id, set()).add(vulnerability["cve"])
    for (software, branch), branch_leaves in sorted(by_branch.items()):
        fixed = [leaf for leaf in branch_leaves if leaf.product_id in fixes]
        affected = [leaf for leaf in branch_leaves if leaf.product_id in affects]
        product = f"{software} {branch}".rstrip()
        if len(fixed) != 1 or len(affected) != 1 or len(branch_leaves) != 2:
            raise BulletinError(f"{product}: wanted one affected and one fixed version")
        match = _FIXED.fullmatch(fixed[0].text)
        if not match or not _AFFECTED.fullmatch(affected[0].text):
            raise BulletinError(f"{product}: unknown words {fixed[0].text!r}, {affected[0].text!r}")
        cves = tuple(sorted(fixes[fixed[0].product_id]))
        text = " ".join(affected[0].text.split())
        yield Floor(software, branch, number, released, cves, text, match[1])


def table(documents: Mapping[str, str]) -> str:
    """Return the table of security floors as JSON text, sorted, with one entry per line.

    Args:
        documents: JSON texts of the bulletins, by file name.

    Raises:
        BulletinError: A bulletin cannot be used; the message names its file.
    """
    if not 0 < len(documents) <= DOCUMENTS:
        raise BulletinError(f"{len(documents)} bulletins, wanted 1 to {DOCUMENTS}")
    entries: list[Floor] = []
    for name, text in sorted(documents.items()):
        try:
            entries += bulletin(text)
        except ValueError as error:
            raise BulletinError(f"{name}: {error}") from error
    if not entries:
        raise BulletinError("none of the bulletins concerns a known part")
    entries.sort(key=lambda entry: (entry.part, entry.branch, entry.date, entry.bulletin))
    rows = ",\n".join("  " + json.dumps(asdict(entry), ensure_ascii=False) for entry in entries)
    source = "NVIDIA/product-security, CSAF 2.0; written by `make facts CSAF=<folder>`"
    return f'{{\n "source": {json.dumps(source)},\n "floors": [\n{rows}\n ]\n}}\n'
