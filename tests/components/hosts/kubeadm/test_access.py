"""Checks of the cluster access that a control-plane host prints: only four values are used."""

from __future__ import annotations

import base64
import copy
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
import yaml
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from gpu_cluster.hosts.kubeadm.access import ACCESS, SIZE_LIMIT, Access, check_key
from gpu_cluster.ssh.answers import Unreadable
from gpu_rules.faults import FaultError
from tests.fixtures.kubeconfigs import (
    ENDPOINT,
    TOKEN,
    administrator,
    encoded,
    first_line,
    pair,
)

Json = dict[str, Any]
Change = Callable[[Json], None]


def read(document: Json, line: str | None = None, endpoint: str = ENDPOINT) -> Access:
    text = (first_line() if line is None else line) + yaml.safe_dump(document)
    return ACCESS.read(text, "cp-1", endpoint)


def changed(change: Change) -> Json:
    document = copy.deepcopy(administrator())
    change(document)
    return document


def cluster(**entries: Any) -> Change:
    return lambda document: document["clusters"][0]["cluster"].update(entries)


def user(**entries: Any) -> Change:
    return lambda document: document["users"][0]["user"].update(entries)


def top(**entries: Any) -> Change:
    return lambda document: document.update(entries)


def test_what_kubeadm_writes_is_taken_whole() -> None:
    found = read(administrator())
    assert found.token == TOKEN
    assert found.hashes == (pair("kubernetes")[2],)
    document = administrator()
    assert found.administrator.cluster == document["clusters"][0]["cluster"]
    assert found.administrator.user == document["users"][0]["user"]
    check_key(found.administrator)
    for secret in (TOKEN, found.administrator.key):
        assert secret not in repr(found)


@pytest.mark.parametrize(
    "key",
    [rsa.generate_private_key(65537, 2048), ec.generate_private_key(ec.SECP256R1())],
    ids=["RSA-2048", "ECDSA-P256"],  # Key algorithms of kubeadm's setting encryptionAlgorithm.
)
def test_keys_of_kubeadm_s_algorithms_are_read(key: Any) -> None:
    certificate, private, found = encoded(key)
    document = changed(cluster(**{"certificate-authority-data": certificate}))
    document["users"][0]["user"] = {
        "client-certificate-data": certificate,
        "client-key-data": private,
    }
    check_key(read(document, f"{TOKEN} {found}\n").administrator)


EXEC = {"apiVersion": "client.authentication.k8s.io/v1", "command": "sh", "args": ["-c", "id"]}


@pytest.mark.promise(
    "Of a kubeconfig that a host printed only the server, the authority, the client certificate "
    "and the client key are taken; any other key, such as exec or proxy-url, refuses the host."
)
@pytest.mark.parametrize(
    "change",
    [
        user(exec=EXEC),
        user(**{"auth-provider": {"name": "oidc"}}),
        user(tokenFile="/etc/passwd"),
        user(token="x"),
        user(username="x", password="y"),
        user(**{"client-key": "/root/.ssh/id_ed25519"}),
        user(**{"client-certificate": "/etc/passwd"}),
        user(**{"as": "system:admin"}),
        cluster(**{"proxy-url": "http://192.0.2.66:3128"}),
        cluster(**{"insecure-skip-tls-verify": True}),
        cluster(**{"insecure-skip-tls-verify": False}),
        cluster(**{"tls-server-name": "elsewhere"}),
        cluster(**{"certificate-authority": "/etc/ssl/ca.pem"}),
        cluster(**{"disable-compression": True}),
        cluster(extensions=[]),
        top(preferences={"colors": True}),
        top(extensions=[{"name": "x", "extension": {}}]),
        lambda document: document["contexts"][0]["context"].update(namespace="kube-system"),
        lambda document: document["users"][0].update(exec=EXEC),
    ],
)  # fmt: skip
def test_any_other_key_refuses_the_host(change: Change) -> None:
    with pytest.raises(FaultError, match="host cp-1, its answer about the new cluster: found"):
        read(changed(change))


@pytest.mark.promise(
    "The server in a host's kubeconfig is the declared endpoint, and its authority has the public "
    "key whose hash kubeadm printed; otherwise nothing of the host's answer is used."
)
@pytest.mark.parametrize(
    ("change", "says"),
    [
        (cluster(server="https://192.0.2.66:6443"), r"wanted: https://192\.0\.2\.9:6443"),
        (cluster(server="http://192.0.2.9:6443"), "found the server http://"),
        (cluster(server="https://192.0.2.9:6443/x"), "found the server"),
        (cluster(server="https://u@192.0.2.9:6443"), "found the server"),
        (cluster(server="https://192.0.2.9:6443\n"), r"6443\\n in the kubeconfig"),
        (
            cluster(**{"certificate-authority-data": pair("other")[0]}),
            "found an authority with the public key sha256:",
        ),
    ],
)
def test_another_cluster_than_the_declared_one_is_refused(change: Change, says: str) -> None:
    with pytest.raises(FaultError, match=says):
        read(changed(change))


def test_an_authority_in_replacement_needs_both_hashes() -> None:
    both = base64.b64encode(
        b"".join(base64.b64decode(pair(name)[0]) for name in ("kubernetes", "new"))
    )
    document = changed(cluster(**{"certificate-authority-data": both.decode()}))
    with pytest.raises(FaultError, match="found an authority with the public key"):
        read(document)
    line = f"{TOKEN} {pair('kubernetes')[2]} {pair('new')[2]}\n"
    assert read(document, line).administrator.authority == both.decode()


def test_what_stands_around_certificates_is_left_out() -> None:
    plain = pair("kubernetes")[0]
    more = base64.b64encode(b"# from the host\n" + base64.b64decode(plain) + b"x\n").decode()
    found = read(changed(cluster(**{"certificate-authority-data": more})))
    assert found.administrator.authority == plain


@pytest.mark.parametrize(
    "change",
    [
        cluster(**{"certificate-authority-data": "no base64!"}),
        cluster(**{"certificate-authority-data": base64.b64encode(b"no PEM").decode()}),
        cluster(**{"certificate-authority-data": pair("kubernetes")[0] * 40}),
        cluster(**{"certificate-authority-data": None}),
        cluster(server=["https://192.0.2.9:6443"]),
        user(**{"client-certificate-data": ""}),
        user(**{"client-key-data": "no base64!"}),
        user(**{"client-key-data": "QQ==\n"}),
        user(**{"client-key-data": "Q" * 20_000}),
        top(clusters=[]),
        top(users=administrator()["users"] * 2),
        top(contexts=None),
        top(kind="Pod"),
        top(apiVersion="v2"),
        lambda document: document.pop("users"),
        lambda document: document["clusters"][0].pop("name"),
        lambda document: document["users"][0].update(name="x" * 300),
        lambda document: document["users"][0].update(user=[]),
    ],
)  # fmt: skip
def test_values_that_are_none_refuse_the_host(change: Change) -> None:
    with pytest.raises(FaultError, match="host cp-1, its answer about the new cluster: found"):
        read(changed(change))


GROWING = "a: &a [x]\n" + "".join(
    f"{b}: &{b} [{', '.join([f'*{a}'] * 8)}]\n" for a, b in pairwise("abcdefghi")
)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\n",
        TOKEN,
        f"{TOKEN}\n",
        f"{TOKEN} {pair('kubernetes')[2]}",
        f"{TOKEN} {pair('kubernetes')[2]} \n{yaml.safe_dump(administrator())}",
        f"{TOKEN.upper()} {pair('kubernetes')[2]}\n{yaml.safe_dump(administrator())}",
        f"{TOKEN} sha256:{'0' * 63}\n{yaml.safe_dump(administrator())}",
        " ".join([TOKEN, *[pair("kubernetes")[2]] * 5]) + f"\n{yaml.safe_dump(administrator())}",
        f"{first_line()}[",
        f"{first_line()}{'[' * 5000}",
        f"{first_line()}- a list",
        f"{first_line()}{GROWING}",
        f"{first_line()}kind: Config\nkind: Config\n",
        f"{first_line()}!!python/object/apply:os.system [id]",
        f"{first_line()}\x00",
    ],
)  # fmt: skip
def test_another_form_is_refused_without_repeating_it(text: str) -> None:
    with pytest.raises(FaultError, match="host cp-1, its answer about the new cluster") as refused:
        ACCESS.read(text, "cp-1", ENDPOINT)
    assert TOKEN not in str(refused.value)
    assert str(refused.value).isprintable()


def test_an_answer_beyond_its_bound_is_not_parsed() -> None:
    with pytest.raises(Unreadable, match=f"found more than {SIZE_LIMIT} characters"):
        ACCESS.read(first_line() + " " * SIZE_LIMIT, "cp-1", ENDPOINT)


@pytest.mark.parametrize(
    "key",
    [
        pair("other")[1],
        base64.b64encode(b"placeholder").decode(),
        base64.b64encode(b"# x\n" + base64.b64decode(pair("kubernetes-admin")[1])).decode(),
        pair("kubernetes-admin")[0],
        "\udcff",
        "",
    ],
)
def test_a_key_that_the_certificate_does_not_have_is_never_written(key: str) -> None:
    found = replace(read(administrator()).administrator, key=key)
    with pytest.raises(FaultError, match=r"a client key \(not repeated here\)"):
        check_key(found)
