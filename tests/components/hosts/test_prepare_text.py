"""Values of phase `prepare` reach the host's shell as data, whichever characters they contain."""

from __future__ import annotations

import json
import shutil
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpu_cluster.base.model import FrozenDict
from gpu_cluster.hosts.phases import prepare_script
from gpu_cluster.loading.loader import load
from gpu_cluster.settings.cluster import Cluster
from gpu_cluster.settings.hosts.packages import BUILD
from gpu_cluster.settings.hosts.system import Firewall
from gpu_cluster_lab.simulator import hosts as simulated
from tests.components.hosts.hostile import VALUE, variables
from tests.desired_host import desired_host
from tests.fixtures.documents import stack_document

pytestmark = pytest.mark.full

SHELLS = [shell for shell in ("dash", "bash") if shutil.which(shell)]
SHOWN = ("GC_PACKAGES", "GC_KERNEL_RELEASE", "GC_PORTS", "GC_DRIVER_VERSION", "GC_DRIVER_SHA256")
SHOWN += ("GC_JOIN_ENDPOINT", "GC_JOIN")
ROWS = ("each_sysctl", "each_driver_location", "each_repository")
FIELDS = ("package", "release", "port", "version", "sum", "endpoint", "token", "sysctl", "place")
FIELDS += ("url",)
"""Ten values for each script, so that 100 examples test 1,000 values."""
KEY = "-----BEGIN PGP PUBLIC KEY BLOCK-----"


def valid() -> Cluster:
    """Return a configuration with all steps; the tests replace its values one by one."""
    sections: dict[str, Any] = {
        "packages": {"install": ["x"]},
        "kernel": {
            "release": "6.1.0-42-amd64",
            "repository": {"apt": {"url": "http://127.0.0.1", "key": KEY}},
        },
        "driver": {
            "source": "runfile",
            "version": "580.65.06",
            "runfile": {"locations": ["/x"], "sha256": "0" * 64},
        },
        "kubernetesPackages": {
            "version": "1.34.4",
            "join": {"endpoint": "192.0.2.1:6443", "caCertHashes": ["sha256:" + "0" * 64]},
        },
    }
    host = {
        "name": "gpu-1",
        "address": "127.0.0.1",
        "hostKey": simulated.host_public_key("gpu-1"),
        "role": "gpu-worker",
    }
    return load(
        stack_document(
            context="here",
            pools=[{"name": "a", "nodes": ["gpu-1"], "gpusPerNode": 8}],
            hosts=[host],
        )
        | sections
    )


VALID = valid()


def script_of(values: dict[str, str]) -> str:
    """Return a script with values that no validation has checked, to test only the rendering."""
    declared, packages = VALID.hosts[0], VALID.kubernetes_packages
    kernel, driver = declared.kernel, declared.driver
    assert driver.runfile is not None
    assert packages.join is not None
    assert kernel.repository.apt is not None
    apt = kernel.repository.apt.model_copy(update={"url": values["url"]})
    repository = kernel.repository.model_copy(update={"apt": apt})
    runfile = driver.runfile.model_copy(
        update={"locations": (values["place"],), "sha256": values["sum"]}
    )
    join = packages.join.model_copy(update={"endpoint": values["endpoint"]})
    system = declared.system.model_copy(
        update={
            "sysctl": FrozenDict({"kernel.hostile": values["sysctl"]}),
            "firewall": Firewall.RULES,
            "firewall_ports": (values["port"],),
        }
    )
    changed: dict[str, Any] = {
        "packages": VALID.packages.model_copy(update={"install": (values["package"],)}),
        "kubernetes_packages": packages.model_copy(update={"join": join}),
    }
    host = declared.model_copy(
        update={
            "kernel": kernel.model_copy(
                update={"release": values["release"], "repository": repository}
            ),
            "driver": driver.model_copy(update={"version": values["version"], "runfile": runfile}),
            "system": system,
        }
    )
    resolved = desired_host(VALID.model_copy(update=changed), host)
    return prepare_script(resolved, values["token"], inline=True)


def arrived(shell: str, script: str) -> dict[str, list[str]]:
    """Return the values that a shell read from the script, by name of the variable or list."""
    show = [f"printf '%s\\0' {name} \"${name}\" '\n'" for name in SHOWN]
    show += [f"shown() {{ printf '%s\\0' {name} \"$@\" '\n'; }}\n{name} shown" for name in ROWS]
    found: dict[str, list[str]] = {}
    words = variables(shell, script, show)
    # Values may contain line ends, so a record ends after a fixed number of words.
    sizes = {**dict.fromkeys(SHOWN, 1), "each_sysctl": 2, "each_driver_location": 1}
    sizes["each_repository"] = 10
    while words:
        name, *rest_words = words
        size = sizes[name]
        assert rest_words[size] == "\n"
        found.setdefault(name, []).extend(rest_words[:size])
        words = rest_words[size + 1 :]
    return found


@pytest.mark.parametrize("shell", SHELLS)
@settings(max_examples=100, deadline=None)
@given(texts=st.lists(VALUE, min_size=len(FIELDS), max_size=len(FIELDS)))
def test_a_thousand_values_arrive_as_they_are(shell: str, texts: list[str]) -> None:
    values = dict(zip(FIELDS, texts, strict=True))
    found = arrived(shell, script_of(values))
    assert found["GC_PACKAGES"] == [" ".join(dict.fromkeys((*BUILD, values["package"])))]
    assert found["GC_KERNEL_RELEASE"] == [values["release"]]
    assert found["GC_PORTS"][0].endswith(values["port"])
    assert found["GC_DRIVER_VERSION"] == [values["version"]]
    assert found["GC_DRIVER_SHA256"] == [values["sum"]]
    assert found["GC_JOIN_ENDPOINT"] == [values["endpoint"]]
    joined = json.loads(found["GC_JOIN"][0])["discovery"]["bootstrapToken"]
    assert (joined["token"], joined["apiServerEndpoint"]) == (values["token"], values["endpoint"])
    assert found["each_sysctl"][-2:] == ["kernel.hostile", values["sysctl"]]
    assert found["each_driver_location"] == [values["place"]]
    assert found["each_repository"][:4] == ["apt", "kernel", "kernel", values["url"]]


def test_scripts_are_held_against_dash_and_bash() -> None:
    assert SHELLS == ["dash", "bash"]
