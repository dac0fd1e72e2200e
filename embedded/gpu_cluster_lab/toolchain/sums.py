"""Pinned SHA-256 sums of official downloads by file name, as they were reviewed.

The published list of checksums is on the same host as the download, so an attacker who can change
one can change the other too. Source for actionlint: the same sums that several other projects pin.
Files that are not in this table have no second source: they are checked with the publisher's own
list, and the program prints that.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

SUMS: Mapping[str, str] = MappingProxyType(
    {
        "actionlint_1.7.12_linux_amd64.tar.gz": (
            "8aca8db96f1b94770f1b0d72b6dddcb1ebb8123cb3712530b08cc387b349a3d8"
        ),
        "actionlint_1.7.12_linux_arm64.tar.gz": (
            "325e971b6ba9bfa504672e29be93c24981eeb1c07576d730e9f7c8805afff0c6"
        ),
        "actionlint_1.7.12_darwin_amd64.tar.gz": (
            "5b44c3bc2255115c9b69e30efc0fecdf498fdb63c5d58e17084fd5f16324c644"
        ),
        "actionlint_1.7.12_darwin_arm64.tar.gz": (
            "aba9ced2dee8d27fecca3dc7feb1a7f9a52caefa1eb46f3271ea66b6e0e6953f"
        ),
    }
)
