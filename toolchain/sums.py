"""Pinned SHA-256 sums of official downloads by file name, as they were reviewed.

The published list of checksums is on the same host as the download, so an attacker who can change
one can change the other too. Sources: pulumi/homebrew-tap Formula/pulumi.rb at 3.250.0 (from Pulumi
itself); for actionlint, the same sums that several other projects pin. Files that are not in this
table have no second source: they are checked with the publisher's own list, and the program prints
that.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

SUMS: Mapping[str, str] = MappingProxyType(
    {
        "pulumi-v3.250.0-linux-x64.tar.gz": (
            "8916fd36ccc96adbd45ca679194b685e3b767d94502ae05610878a6d9870b8f3"
        ),
        "pulumi-v3.250.0-linux-arm64.tar.gz": (
            "deb4bf0d05b4cbaf3adcf82ffa44039ad0ebf039e33338ead8136877a437b4e5"
        ),
        "pulumi-v3.250.0-darwin-x64.tar.gz": (
            "8aa1615ed737022949d4050bf183ab37bce1f9cecb88877bc6636db82604e348"
        ),
        "pulumi-v3.250.0-darwin-arm64.tar.gz": (
            "dbd289ce3069cf567683252082e226aef533775f546df7286f64f3f36f5fda28"
        ),
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
