"""Attack: a branch's code, run by a preview that may open the stack's state."""

from __future__ import annotations

import base64
import json
import secrets
import subprocess
from pathlib import Path
from typing import Any

import asyncssh
import pytest
import yaml

from commands.environment import local_backend
from commands.placeholders import PLACEHOLDERS, blinded, placeholder
from commands.preview_secrets import without_secrets
from commands.preview_state import preview_environment
from components.hosts.keys import shortest
from components.secrets import TOKEN
from config.problem import FaultError
from lab.simulator import hosts as simulated
from tests.attacks.canaries import Canaries, in_files, key_parts
from tests.e2e.project import LIMIT, Project, figures, started
from tests.guard import own_name
from toolchain.plugins.command_provider.values import SECRET, SIGNATURE

KEY = "-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXktdjEA\nsecond4line\n-----END\n"
HELD = {
    "gpu-cluster:sshPrivateKey": KEY,
    "gpu-cluster:kubeadmToken": "abcdef.0123456789abcdef",
    "gpu-cluster:licenseToken": "licence5f1d0c2bb7",
}


def wrapped(value: Any) -> dict[str, str]:
    """A secret, as the engine exports one in clear."""
    return {SIGNATURE: SECRET, "plaintext": json.dumps(value)}


FORMS: dict[str, Any] = {
    "alone": KEY,
    "in an object": {"privateKey": KEY, "port": 22},
    "in a script": "GC_STEPS='a'\nGC_JOIN='{\"token\": \"abcdef.0123456789abcdef\"}'\n",
    "in JSON": json.dumps({"privateKey": KEY}),
    "in JSON within JSON": json.dumps({"inner": json.dumps({"privateKey": KEY})}),
    "in a Secret's data": {"token": base64.b64encode(b"licence5f1d0c2bb7").decode()},
}


@pytest.mark.parametrize("value", FORMS.values(), ids=FORMS)
def test_no_secret_is_in_the_state_of_previews(value: Any) -> None:
    state = {"deployment": {"resources": [{"inputs": {"a": wrapped(value), "b": "kept"}}]}}
    text = json.dumps(blinded(state, HELD))
    for part in ("b3BlbnNzaC1rZXktdjEA", "second4line", "0123456789abcdef", "5f1d0c2bb7"):
        assert part not in text
    assert base64.b64encode(b"licence5f1d0c2bb7").decode() not in text
    assert '"b": "kept"' in text


def test_a_key_in_the_format_that_a_program_declares_is_not_in_the_state_of_previews() -> None:
    """The state holds an OpenSSH key in PKCS#8 (`components.hosts.keys`)."""
    made = asyncssh.generate_private_key("ssh-ed25519").export_private_key().decode()
    declared = shortest(made)
    assert declared != made
    state = {"connection": wrapped(json.dumps({"privateKey": declared, "user": "root"}))}
    secret = declared.splitlines()[1][22:]
    assert secret in json.dumps(state)
    blind = blinded(state, {"gpu-cluster:sshPrivateKey": made})
    other = placeholder("gpu-cluster:sshPrivateKey")
    assert json.loads(json.loads(blind["connection"]["plaintext"])) == {
        "privateKey": other,
        "user": "root",
    }
    assert shortest(other) == other
    with pytest.raises(FaultError, match="a part of gpu-cluster:sshPrivateKey"):
        blinded({"a": wrapped(declared.splitlines()[1])}, {"gpu-cluster:sshPrivateKey": made})


def kubeconfig() -> tuple[str, str]:
    """What `kubeadm init` leaves the administrator, after a token; and a part of its key."""
    key = asyncssh.generate_private_key("ssh-rsa").export_private_key("pkcs1-pem")
    data = base64.b64encode(key).decode()
    public = base64.b64encode(b"-----BEGIN CERTIFICATE-----\nMIIC\n-----END CERTIFICATE-----\n")
    user = {"client-certificate-data": public.decode(), "client-key-data": data}
    said = f"07401b.f395accd246ae52d sha256:{'0' * 64}\n"
    return said + yaml.safe_dump({"users": [{"name": "admin", "user": user}]}), data[100:140]


def test_what_a_stack_made_itself_is_not_in_the_state_of_previews() -> None:
    """A cluster of its own has the administrator's kubeconfig in it, and a token."""
    said, part = kubeconfig()
    document = json.dumps({"context": "made", "kubeconfig": said})
    state = {"outputs": {"stdout": wrapped(said)}, "inputs": {"stdin": wrapped(document)}}
    blind = blinded(state, {})
    text = json.dumps(blind)
    assert part in json.dumps(state)
    assert part not in text
    assert "f395accd246ae52d" not in text
    assert "client-certificate-data: LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCk1JSUMK" in text
    shown = json.loads(blind["outputs"]["stdout"]["plaintext"])
    given = json.loads(blind["inputs"]["stdin"]["plaintext"])
    assert given == json.dumps({"context": "made", "kubeconfig": shown})  # so nothing differs


@pytest.mark.parametrize("kind", ["ssh-ed25519", "ssh-rsa", "ecdsa-sha2-nistp256"])
@pytest.mark.parametrize("form", ["openssh", "pkcs8-pem"])
def test_a_key_from_a_file_is_not_in_the_state_of_previews(kind: str, form: str) -> None:
    """GPU_CLUSTER_SSH_PRIVATE_KEY_FILE names it, and the stack has no such secret."""
    key = asyncssh.generate_private_key(kind).export_private_key(form).decode()
    for spelling in (key, key.replace("\n", "\r\n"), key.strip(), shortest(key)):
        connection = {"privateKey": spelling, "user": "root"}
        for held in (connection, json.dumps(connection), json.dumps(json.dumps(connection))):
            blind = json.loads(blinded({"a": wrapped(held)}, {})["a"]["plaintext"])
            for _ in range(2):
                blind = json.loads(blind) if isinstance(blind, str) else blind
            assert blind["privateKey"].strip() == placeholder("gpu-cluster:sshPrivateKey")
            assert blind["user"] == "root"


@pytest.mark.parametrize("before", [b"x", b"xy"])
def test_a_private_key_that_is_left_in_any_form_stops_the_copy(before: bytes) -> None:
    key = asyncssh.generate_private_key("ssh-ed25519").export_private_key()
    encoded = base64.b64encode(before + key).decode()
    for value in (encoded, wrapped(encoded), key.decode()):
        with pytest.raises(FaultError, match="found a private key"):
            blinded({"a": value}, {})


@pytest.mark.parametrize("before", ["", "x", "xy", "xyz"])
def test_a_kubeconfig_in_base64_stops_the_copy(before: str) -> None:
    """So a Secret has one, in which the key is in base64 already."""
    encoded = before + base64.b64encode(kubeconfig()[0].encode()).decode()
    with pytest.raises(FaultError, match="found a private key"):
        blinded({"a": wrapped({"data": encoded})}, {})


def test_a_text_keeps_what_is_no_secret() -> None:
    state = blinded({"a": wrapped(FORMS["in a script"])}, HELD)
    token = placeholder("gpu-cluster:kubeadmToken")
    assert json.loads(state["a"]["plaintext"]) == FORMS["in a script"].replace(
        HELD["gpu-cluster:kubeadmToken"], token
    )


def test_a_secret_in_a_form_that_is_not_known_stops_the_copy_and_is_not_repeated() -> None:
    for value in (wrapped(KEY.replace("\n", " ")), "plain " + HELD["gpu-cluster:licenseToken"]):
        with pytest.raises(FaultError, match="a part of gpu-cluster:") as error:
            blinded({"a": value}, HELD)
        assert "second4line" not in str(error.value)
        assert "5f1d0c2bb7" not in str(error.value)


def test_a_placeholder_has_the_form_that_is_checked() -> None:
    assert TOKEN.fullmatch(PLACEHOLDERS["gpu-cluster:kubeadmToken"])
    assert json.loads(PLACEHOLDERS["gpu-cluster:registryCredentials"]) == {"auths": {}}


def test_previews_get_no_key_of_deployments() -> None:
    given = {
        "PULUMI_BACKEND_URL": "s3://deploy",
        "PULUMI_CONFIG_PASSPHRASE": "deploys",
        "PULUMI_CONFIG_PASSPHRASE_FILE": "/deploys",
        "PULUMI_ACCESS_TOKEN": "deploys",
        "PREVIEW_PASSPHRASE": "previews",
    }
    for url, found in (("", "nothing"), ("s3://deploy", "the backend that deployments use")):
        with pytest.raises(FaultError, match=f"PREVIEW_BACKEND_URL: found {found}"):
            preview_environment(given | {"PREVIEW_BACKEND_URL": url})
    own = preview_environment(given | {"PREVIEW_BACKEND_URL": "s3://previews"})
    assert own["PULUMI_BACKEND_URL"] == "s3://previews"
    assert own["PULUMI_CONFIG_PASSPHRASE"] == "previews"
    assert "deploys" not in own.values()


def test_the_stack_file_of_a_preview_holds_nothing_that_deployments_encrypted() -> None:
    cluster = {"version": "v1"}
    text = yaml.safe_dump(
        {
            "encryptionsalt": "v1:salt",
            "secretsprovider": "hashivault://deploy",
            "encryptedkey": "key",
            "config": {
                "gpu-cluster:cluster": cluster,
                "gpu-cluster:licenseToken": {"secure": "v1:abc"},
            },
        }
    )
    left: dict[str, Any] = {"config": {"gpu-cluster:cluster": cluster}}
    made, names = without_secrets(text, "passphrase")
    assert yaml.safe_load(made) == left
    assert names == ["gpu-cluster:licenseToken"]
    other, _ = without_secrets(text, "hashivault://preview")
    assert yaml.safe_load(other) == left | {"secretsprovider": "hashivault://preview"}


def give(project: Project, name: str, text: str) -> None:
    """A secret of the stack, by standard input."""
    subprocess.run(
        ["pulumi", "config", "set", "--secret", name],
        cwd=project.root,
        env=project.shell_environment(),
        input=text,
        text=True,
        check=True,
        capture_output=True,
        timeout=LIMIT,
    )


@pytest.mark.full
def test_a_preview_of_a_deployed_stack_opens_its_copy_alone_and_finds_no_change(
    tmp_path: Path,
) -> None:
    project = Project.make(tmp_path, own_name("copy"))
    backend = tmp_path / "previews"
    backend.mkdir()
    project.edit(lambda cluster: cluster.update(registry={"pullSecret": "registry"}))
    with started(project):
        key, _ = simulated.client_key(project.stack)
        login = secrets.token_hex(16)
        canaries = Canaries({"key": key_parts(key.read_text()), "login": (login.encode(),)})
        probe = tmp_path / "probe_key"
        probe.write_text(key.read_text())
        project.pulumi("stack", "init", project.stack)
        credentials = json.dumps({"auths": {"registry.example.org": {"auth": login}}})
        for name, text in (
            ("sshPrivateKey", key.read_text()),
            ("registryCredentials", credentials),
        ):
            give(project, f"gpu-cluster:{name}", text)
        assert figures(project.up())[:2] == (32, 32)
        named = {"PREVIEW_BACKEND_URL": local_backend(backend), "PREVIEW_PASSPHRASE": "previews"}
        done = project.command("preview_state", **named)
        assert done.stdout.strip().splitlines()[-1].startswith("preview-state: 2 secrets replaced")

        project.environment |= {
            "PULUMI_BACKEND_URL": local_backend(backend),
            "PULUMI_CONFIG_PASSPHRASE": "previews",
            "GPU_CLUSTER_PROBE_KEY_FILE": str(probe),
        }
        deployed = project.file.read_text()
        refused = project.pulumi("preview")  # the stack file as deployments have it
        assert refused.returncode != 0
        made = project.command("preview_secrets")
        assert made.stdout.strip() == "preview-secrets: 2 placeholders"
        same = project.pulumi("preview", "--expect-no-changes")
        assert same.returncode == 0, same.stdout
        opened = project.pulumi("stack", "export", "--show-secrets").stdout
        assert placeholder("gpu-cluster:sshPrivateKey") in opened
        assert canaries.found(opened.encode()) == set()
        assert in_files(canaries, [backend], [])[1] == set()

        project.file.write_text(deployed)
        project.environment["PULUMI_BACKEND_URL"] = local_backend(project.state)
        closed = project.pulumi("stack", "export", "--show-secrets")
        assert closed.returncode != 0, "what previews hold opens nothing of deployments"
        assert canaries.found(closed.stdout.encode()) == set()
        del project.environment["PULUMI_CONFIG_PASSPHRASE"]
        del project.environment["GPU_CLUSTER_PROBE_KEY_FILE"]
        gone = project.command("destroy")
        assert gone.returncode == 0, gone.stdout
