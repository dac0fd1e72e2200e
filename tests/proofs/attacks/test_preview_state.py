"""Attack: a preview runs the code of a branch, which must not get the deployed stack's secrets."""

from __future__ import annotations

import base64
import codecs
import html
import json
import os
import secrets
import shlex
import subprocess
import textwrap
import urllib.parse
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpu_cluster.commands.environment import local_backend
from gpu_cluster.commands.placeholders import (
    PLACEHOLDERS,
    blinded,
    blinded_access,
    is_complete,
    placeholder,
)
from gpu_cluster.commands.preview_state import Copy, preview_environment, without_secrets
from gpu_cluster.commands.tools import TOOLS
from gpu_cluster.hosts.credentials import TOKEN
from gpu_cluster.property_values import SECRET, SIGNATURE, UNKNOWN
from gpu_cluster_lab import toolchain
from gpu_cluster_lab.simulator import hosts as simulated
from gpu_rules.faults import FaultError
from tests.guard import own_name
from tests.proofs.attacks.canaries import Canaries, in_files, key_parts
from tests.proofs.e2e.project import LIMIT, Project, figures, started

URN = "urn:pulumi:s::p::command:local:Command::c"


def wrapped(value: Any) -> dict[str, str]:
    """Return a secret value in the plain-text form of an exported Pulumi state."""
    return {SIGNATURE: SECRET, "plaintext": json.dumps(value)}


def state_of(*secret: Any, clear: Any = "kept", urn: str = URN, **more: Any) -> dict[str, Any]:
    """Return a Pulumi state in which some values are marked as secret, and one value isn't."""
    inputs = {f"secret{number}": wrapped(value) for number, value in enumerate(secret)}
    kind = urn.rpartition("::")[0].rpartition("::")[2].rpartition("$")[2]
    resource = {"urn": urn, "type": kind, "inputs": {**inputs, "clear": clear}, **more}
    return {"version": 3, "deployment": {"resources": [resource]}}


def shown(state: dict[str, Any], name: str = "secret0", part: str = "inputs") -> Any:
    (resource,) = state["deployment"]["resources"]
    return json.loads(resource[part][name]["plaintext"])


@dataclass(frozen=True)
class Held:
    """Random secrets of a stack.

    Each secret has the same length in every instance, so that states can be compared.
    """

    key: str = field(default_factory=lambda: base64.b64encode(secrets.token_bytes(90)).decode())
    token: str = field(default_factory=lambda: f"{secrets.token_hex(3)}.{secrets.token_hex(8)}")
    password: str = field(default_factory=lambda: f'a&{secrets.token_hex(9)}"<b/>')

    @property
    def pem(self) -> str:
        lines = "\n".join(textwrap.wrap(self.key, 60))
        return f"-----BEGIN PRIVATE KEY-----\n{lines}\n-----END PRIVATE KEY-----\n"

    @property
    def login(self) -> str:
        return base64.b64encode(f"user:{self.password}".encode()).decode()

    @property
    def docker(self) -> dict[str, Any]:
        return {"auths": {"registry.example.org": {"auth": self.login}}}

    @property
    def jwt(self) -> str:
        parts = ({"alg": "none"}, {"sub": self.token})
        return ".".join(
            base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=")
            for part in parts
        )


def coded(text: str, coding: str) -> str:
    return codecs.encode(text.encode(), coding).decode()


# Forms in which a secret value in the state may contain the private key, the token or the password.
SPELLINGS: dict[str, Callable[[Held], Any]] = {
    "alone": lambda held: held.pem,
    "in an object": lambda held: {"privateKey": held.pem, "port": 22},
    "in a script": lambda held: f"GC_JOIN='{held.token}'\n",
    "in JSON": lambda held: json.dumps({"privateKey": held.pem}),
    "in JSON within JSON": lambda held: json.dumps({"a": json.dumps({"privateKey": held.pem})}),
    "in YAML": lambda held: yaml.safe_dump({"privateKey": held.pem}),
    "in a Secret's data": lambda held: {"token": base64.b64encode(held.token.encode()).decode()},
    "Docker auth, compact": lambda held: json.dumps(held.docker, separators=(",", ":")),
    "Docker auth, indented": lambda held: json.dumps(held.docker, indent=2),
    "Docker auth in base64": lambda held: coded(json.dumps(held.docker), "base64"),
    "Docker's field auth": lambda held: held.login,
    "Docker's password": lambda held: held.password,
    "Docker's user and password": lambda held: {"username": "user", "password": held.password},
    "escaped as Go does": lambda held: json.dumps(held.password).replace("&", "\\u0026"),
    "escaped whole": lambda held: "".join(f"\\u{ord(letter):04x}" for letter in held.token),
    "gzip": lambda held: base64.b64encode(zlib.compress(held.key.encode(), 0)).decode(),
    "URL": lambda held: f"https://user:{urllib.parse.quote(held.password)}@registry.example.org/",
    "form": lambda held: urllib.parse.urlencode({"password": held.password}),
    "JWT": lambda held: held.jwt,
    "JWT in a header": lambda held: {"Authorization": f"Bearer {held.jwt}"},
    "nested secure": lambda held: {"auth": {"secure": f"v1:{held.token}"}},
    "nested mark": lambda held: {SIGNATURE: SECRET, "value": held.token},
    "hexadecimal": lambda held: held.token.encode().hex(),
    "base32": lambda held: base64.b32encode(held.token.encode()).decode(),
    "base85": lambda held: base64.b85encode(held.token.encode()).decode(),
    "base64 twice": lambda held: coded(coded(held.key, "base64"), "base64"),
    "base64 after another byte": lambda held: coded("x" + held.pem, "base64"),
    "quoted printable": lambda held: coded(held.password, "quopri"),
    "HTML": lambda held: html.escape(held.password),
    "for a shell": lambda held: shlex.quote(held.password),
    "reversed": lambda held: held.token[::-1],
    "upper case": lambda held: held.token.upper(),
    "line by line": lambda held: held.pem.splitlines(),
    "on one line": lambda held: held.pem.replace("\n", " "),
    "with CRLF": lambda held: held.pem.replace("\n", "\r\n"),
    "half of it": lambda held: held.key[:40],
    "as bytes": lambda held: list(held.token.encode()),
    "as a number": lambda held: int.from_bytes(held.token.encode()),
    "as a name": lambda held: {held.token: "x"},
    "as a name in JSON": lambda held: json.dumps({held.token: {"a": [held.password]}}),
}


@pytest.mark.promise("Nothing of a value that the state marks secret is in the state of previews.")
@pytest.mark.parametrize("spelled", SPELLINGS.values(), ids=SPELLINGS)
def test_a_secret_in_any_spelling_changes_nothing_in_the_state_of_previews(
    spelled: Callable[[Held], Any],
) -> None:
    """The copies for previews of two stacks are equal if only the stacks' secrets differ."""
    states = [
        state_of(spelled(held), outputs={"stdout": wrapped(spelled(held)), "code": 0})
        for held in (Held(), Held())
    ]
    assert states[0] != states[1]
    copies = [blinded(state, {}, {}) for state in states]
    assert copies[0] == copies[1]
    (resource,) = copies[0]["deployment"]["resources"]
    assert resource["inputs"]["clear"] == "kept"


def test_what_is_still_encrypted_is_not_in_the_state_of_previews() -> None:
    state = state_of()
    state["deployment"]["resources"][0]["inputs"]["a"] = {SIGNATURE: SECRET, "ciphertext": "v1:abc"}
    state["deployment"]["pending_operations"] = [{"resource": {"inputs": {"a": wrapped("held")}}}]
    text = json.dumps(blinded(state, {}, {}))
    assert "abc" not in text
    assert "held" not in text


def test_a_placeholder_is_what_the_program_declares_there() -> None:
    held, stdin = Held(), json.dumps({"key": "placeholder", "hosts": ["gpu-1"]})
    real = json.dumps({"key": held.pem, "hosts": ["gpu-1"]})
    state = state_of(real, outputs={"stdin": wrapped(real), "stdout": wrapped("read")})
    declared: dict[str, Any] = {URN: {"secret0": stdin, "clear": "other"}}
    assert is_complete(state, declared)
    copy = blinded(state, declared, {})
    assert shown(copy) == shown(copy, "stdin", "outputs") == stdin
    assert shown(copy, "stdout", "outputs") == "placeholder"
    assert copy["deployment"]["resources"][0]["inputs"]["clear"] == "kept"
    for unknown in ({}, {URN: {"secret0": UNKNOWN}}, {URN: {"secret0": {"a": [UNKNOWN]}}}):
        assert not is_complete(state, unknown)
        assert shown(blinded(state, unknown, {})) != stdin


def test_what_the_state_publishes_itself_is_kept() -> None:
    """Values that the state also has as plain text stay readable in the copy for previews.

    Pulumi marks all outputs of a Command as secret if one of its inputs is secret.
    """
    held = Held()
    printed = json.dumps({"nodes": [{"name": "gpu-1", "gpus": 8, "token": held.token}]})
    published = {"nodes": {"name": "gpu-1", "gpus": 8}}
    copy = shown(blinded(state_of(printed, clear=published), {}, {}))
    nodes = [{"name": "gpu-1", "gpus": 8, "placeholder-2": "placeholder"}]
    assert json.loads(copy) == {"nodes": nodes}


def test_a_secret_without_a_mark_stops_the_copy_and_is_not_repeated() -> None:
    held = Held()
    named = {"gpu-cluster:licenseToken": held.token}
    with pytest.raises(FaultError, match="gpu-cluster:licenseToken in a value") as error:
        blinded(state_of(clear=f"plain {held.token}"), {}, named)
    assert held.token not in str(error.value)


def new_cluster(held: Held, **more: str) -> str:
    """Return the output of `kubeadm init` in the state: token, hash and admin kubeconfig."""
    certificate = "-----BEGIN CERTIFICATE-----\nMIIC\n-----END CERTIFICATE-----\n"
    public = base64.b64encode(certificate.encode()).decode()
    user = {"client-certificate-data": public, "client-key-data": coded(held.pem, "base64"), **more}
    cluster = {"server": "https://192.0.2.1:6443", "certificate-authority-data": public}
    document = {
        "users": [{"name": "kubernetes-admin", "user": user}],
        "clusters": [{"name": "kubernetes", "cluster": cluster}],
    }
    return f"{held.token} sha256:{'0' * 64}\n{yaml.safe_dump(document)}"


NEW_CLUSTER = URN.replace("command:local", "gpucluster:index:KubeadmCluster$command:remote")


def test_of_a_cluster_that_the_stack_made_certificates_and_server_are_kept() -> None:
    copies = []
    for held in (Held(), Held()):
        printed = new_cluster(held, **{"exec": held.password})
        state = state_of(urn=NEW_CLUSTER, outputs={"stdout": wrapped(printed)})
        copies.append(shown(blinded(state, {}, {}), "stdout", "outputs"))
    assert copies[0] == copies[1]
    line, _, kubeconfig = copies[0].partition("\n")
    assert line == f"{placeholder('gpu-cluster:kubeadmToken')} sha256:{'0' * 64}"
    document = yaml.safe_load(kubeconfig)
    assert document["clusters"][0]["cluster"]["server"] == "https://192.0.2.1:6443"
    user = document["users"][0]["user"]
    assert sorted(user) == ["client-certificate-data", "client-key-data"]
    assert base64.b64decode(user["client-key-data"]).startswith(b"placeholder")
    hidden = new_cluster(Held(), **{"client-certificate-data": coded("token", "base64")})
    assert blinded_access(hidden) == "placeholder"


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
    """Set a secret in the stack's configuration; the value is passed by standard input."""
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


@pytest.mark.promise(
    "`gpu-cluster preview-state` works any number of times, also with another passphrase."
)
def test_the_copy_is_made_any_number_of_times(tmp_path: Path) -> None:
    """Run the real Pulumi with a separate local backend."""
    backend = tmp_path / "previews"
    state = state_of("held", urn="urn:pulumi:often::gpu-cluster::gpucluster:index:Part::c")
    backend.mkdir()
    tools = toolchain.ensure(*TOOLS).values()
    folders = [str(tool.path.parent) for tool in tools]
    base = {**os.environ, "PATH": os.pathsep.join([*folders, os.environ["PATH"]])}
    text = yaml.safe_dump({"config": {"gpu-cluster:licenseToken": {"secure": "v1:abc"}}})
    for number, phrase in enumerate(("first", "first", "second")):
        folder = tmp_path / str(number)
        folder.mkdir()
        named = {"PREVIEW_BACKEND_URL": local_backend(backend), "PREVIEW_PASSPHRASE": phrase}
        own = preview_environment({**base, "PULUMI_HOME": str(tmp_path / "home"), **named})
        copy = Copy("often", folder, own)
        copy.make(text)
        copy.write(blinded(state, {}, {}))
        (file,) = backend.rglob("often.json")
        assert yaml.safe_load(copy.file.read_text())["encryptionsalt"] in file.read_text()
        assert "held" not in file.read_text()


@pytest.mark.full
@pytest.mark.promise(
    "`gpu-cluster preview-state` works after each deployment, and a preview of it is exact."
)
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
        # CI runs this command after each deployment, so it must work when the copy exists already.
        for _ in range(3):
            done = project.command("preview_state", **named)
            last = done.stdout.strip().splitlines()[-1]
            assert last.startswith("preview-state: 2 secrets replaced"), done.stdout

        project.environment |= {
            "PULUMI_BACKEND_URL": local_backend(backend),
            "PULUMI_CONFIG_PASSPHRASE": "previews",
            "GPU_CLUSTER_PROBE_KEY_FILE": str(probe),
        }
        deployed = project.file.read_text()
        # Run a preview with the stack file of deployments, which previews can't decrypt.
        refused = project.pulumi("preview")
        assert refused.returncode != 0
        made = project.command("preview_secrets")
        assert made.stdout.strip() == "preview-secrets: 2 placeholders"
        same = project.pulumi("preview", "--expect-no-changes")
        assert same.returncode == 0, same.stdout
        edited = yaml.safe_load(project.file.read_text())
        edited["config"]["gpu-cluster:cluster"]["validation"]["timeoutSeconds"] = 121
        project.file.write_text(yaml.safe_dump(edited))
        other = project.pulumi("preview", "--diff")
        assert "gpu-cluster-validation.pools" in other.stdout, other.stdout
        assert "1 to update" in other.stdout, "a change in a value that is marked secret is shown"
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
