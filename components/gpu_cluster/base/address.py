"""Addresses of machines (IPv4, IPv6 or a host name), checked without a name server."""

from __future__ import annotations

import ipaddress
import re
from typing import Annotated

from pydantic import AfterValidator, StrictStr

from gpu_rules.faults import refuse, show

_WANTED = "an IPv4 address, an IPv6 address or a host name"
_HOST_LABEL = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9]{0,61}[A-Za-z0-9])?")
# Resolvers accept hexadecimal parts: 1.2.3.0x4 is an IPv4 address.
_NUMBER = re.compile(r"\d+|0[xX][0-9a-fA-F]*")
_WITH_PORT = re.compile(r"(?P<host>[^:\[\]]+|\[[^\[\]]+\]):(?P<port>\d+)")


def check_address(text: str) -> str:
    """Return the address unchanged if it is valid.

    A name whose last part is a number must be a valid IPv4 address.

    Raises:
        PydanticCustomError: The address is invalid.
    """
    if not text or text != text.strip():
        raise refuse(show(text), _WANTED, "write the address without blanks")
    if "://" in text or "/" in text:
        raise refuse(show(text), _WANTED, "leave out scheme, path and prefix length")
    if "@" in text:
        raise refuse(show(text), _WANTED, "put the part before @ in `user`")
    if match := _WITH_PORT.fullmatch(text):
        raise refuse(
            show(text),
            _WANTED,
            f'write "address: {match["host"].strip("[]")}" and "port: {match["port"]}"',
        )
    if text.startswith("["):
        raise refuse(show(text), _WANTED, "write an IPv6 address without brackets")
    if ":" in text:
        return _check_usable(text, _parse_ipv6(text))
    if _NUMBER.fullmatch(text.rpartition(".")[2]):
        return _check_usable(text, _parse_ipv4(text))
    name = text.removesuffix(".")
    if len(name) > 253 or not all(_HOST_LABEL.fullmatch(label) for label in name.split(".")):
        raise refuse(
            show(text),
            _WANTED,
            "write a name such as gpu-1.example.com; letters, digits, '-' and '.', 253 characters",
        )
    return text


def canonical(address: str) -> str:
    """Return the normal form of an address; equal addresses have equal normal forms."""
    try:
        return ipaddress.ip_address(address).compressed
    except ValueError:
        return address.lower().removesuffix(".")


def _parse_ipv4(text: str) -> ipaddress.IPv4Address:
    try:
        return ipaddress.IPv4Address(text)
    except ValueError:
        raise refuse(
            show(text),
            "a valid IPv4 address: four numbers from 0 to 255 without leading zeros",
            _ipv4_cure(text),
        ) from None


def _ipv4_cure(text: str) -> str:
    numbers = text.split(".")
    if len(numbers) != 4:
        return f"write four numbers, such as 192.0.2.11; it has {len(numbers)}"
    for position, number in zip(("first", "second", "third", "fourth"), numbers, strict=True):
        if not number.isdecimal() or int(number) > 255:
            return f"write an address such as 192.0.2.11; its {position} number is wrong"
        if number != str(int(number)):
            whole = ".".join(str(int(one)) if one.isdecimal() else one for one in numbers)
            return f"write {whole}"
    return "write an address such as 192.0.2.11"


def _parse_ipv6(text: str) -> ipaddress.IPv6Address:
    try:
        address = ipaddress.IPv6Address(text)
    except ValueError:
        raise refuse(
            show(text), "a valid IPv6 address", "write an address such as 2001:db8::11"
        ) from None
    if address.scope_id is not None:
        raise refuse(
            show(text),
            "an IPv6 address without a zone, which differs from machine to machine",
            "write an address such as 2001:db8::11",
        )
    return address


def _check_usable(text: str, address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> str:
    if address.is_unspecified or address.is_multicast or text == "255.255.255.255":
        cure = "write an address such as 192.0.2.11; no machine can have this address"
        raise refuse(show(text), "the address of a single machine", cure)
    return text


Address = Annotated[StrictStr, AfterValidator(check_address)]
