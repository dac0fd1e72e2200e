"""Section `proxy` of the stack file: the proxy between hosts and package or image registries."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator, Field, StrictStr

from gpu_cluster.base.model import Model
from gpu_cluster.base.versions import pattern
from gpu_rules.faults import refuse, show

_URL = re.compile(r"https?://[A-Za-z0-9.-]+(:\d{1,5})?/?|https?://\[[0-9A-Fa-f:.]+\](:\d{1,5})?/?")
LOOPBACK = ("localhost", "127.0.0.1", "::1")
"""Addresses of the host itself, which are always reached without the proxy."""


def _validate_proxy_url(text: str) -> str:
    if "@" in text:
        raise refuse(
            "an address with a user",
            "a proxy without a password, which service files would show to all users of the host",
            "write http://proxy.example.org:3128",
        )
    if _URL.fullmatch(text) is None:
        raise refuse(
            show(text),
            "an http or https address with a port or without",
            "write http://proxy.example.org:3128",
        )
    return text.rstrip("/")


ProxyUrl = Annotated[StrictStr, AfterValidator(_validate_proxy_url)]
Direct = Annotated[
    StrictStr,
    AfterValidator(
        pattern(
            r"[A-Za-z0-9.:/*-]+",
            "a name, a suffix such as .example.org, or a network",
            "10.0.0.0/8",
        )
    ),
]


class ProxySettings(Model):
    """Proxy for downloads on hosts, for images of the container engine, and for driver containers.

    The machine that runs this program fetches charts and uses its own environment variable
    `HTTPS_PROXY`. `noProxy` should contain the networks of hosts, pods and Services.
    """

    http: ProxyUrl | None = Field(
        default=None, description="an address", examples=["http://proxy.example.org:3128"]
    )
    https: ProxyUrl | None = Field(
        default=None,
        description="an address, for https addresses",
        examples=["http://proxy.example.org:3128"],
    )
    no_proxy: tuple[Direct, ...] = Field(
        default=(),
        description="a list of names, suffixes and networks that are reached directly",
        examples=["[10.0.0.0/8, .cluster.local]"],
    )

    @property
    def environment(self) -> dict[str, str]:
        """Return the proxy's environment variables in upper case; empty without a proxy."""
        if not (self.http or self.https):
            return {}
        proxies = {"HTTP_PROXY": self.http, "HTTPS_PROXY": self.https}
        chosen = {name: value for name, value in proxies.items() if value}
        return {**chosen, "NO_PROXY": ",".join((*LOOPBACK, *self.no_proxy))}

    @property
    def both_cases(self) -> dict[str, str]:
        """Return the proxy's environment variables in upper and lower case.

        Some programs read only the lower-case names.
        """
        lower = {name.lower(): value for name, value in self.environment.items()}
        return {**self.environment, **lower}
