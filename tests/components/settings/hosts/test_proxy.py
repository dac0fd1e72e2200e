"""The section `proxy`: addresses that are accepted, and the environment that hosts get."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from gpu_cluster.settings.hosts.proxy import ProxySettings


def test_the_host_itself_is_reached_without_the_proxy() -> None:
    proxy = ProxySettings(https="http://proxy.example.org:3128/", no_proxy=("10.0.0.0/8",))
    assert proxy.environment == {
        "HTTPS_PROXY": "http://proxy.example.org:3128",
        "NO_PROXY": "localhost,127.0.0.1,::1,10.0.0.0/8",
    }


def test_names_without_a_proxy_set_no_variable() -> None:
    assert ProxySettings(no_proxy=("10.0.0.0/8",)).both_cases == {}


def test_each_variable_is_set_in_both_cases() -> None:
    both = ProxySettings(http="http://[2001:db8::1]:3128").both_cases
    assert {name for name in both if name.islower()} == {"http_proxy", "no_proxy"}
    assert all(both[name.lower()] == both[name.upper()] for name in both)


@pytest.mark.parametrize(
    "address",
    [
        "http://user:secret@proxy.example.org:3128",
        "socks5://proxy.example.org:1080",
        "http://proxy.example.org:3128/path",
        "http://proxy.example.org:3128\nPATH=/tmp",
        "proxy.example.org:3128",
    ],
)
def test_an_address_that_would_not_work_or_would_show_a_password_is_refused(address: str) -> None:
    with pytest.raises(ValidationError) as refused:
        ProxySettings(http=address)
    assert "secret" not in refused.value.errors(include_input=False)[0]["msg"]
