"""The real kubelet accepts and rejects the same settings as this project's own check."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import yaml

from gpu_cluster.base.compatibility import version
from gpu_cluster.hosts.steps.kubernetes import FAILS_ON_CGROUP_V1
from gpu_cluster.settings.hosts.kubelet_gates import REMOVED, removed
from lab.real import build, parts
from tests.fixtures.programs import run_program
from tests.proofs.real.bare import MARKS

pytestmark = MARKS

REFUSED = "kubelet is configured to not run on a host using cgroup v1"
UNKNOWN = "unrecognized feature gate: %s"
LIMIT = 60


def ends(folder: Path, gates: Sequence[str] = (), **settings: object) -> str:
    """Return the last messages of a kubelet without an API server or a container engine.

    Args:
        folder: Folder for the kubelet's files.
        gates: Feature gates that are on.
        settings: Settings of the kubelet.
    """
    settings["featureGates"] = dict.fromkeys(gates, True)
    kind = {"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration"}
    endpoint = f"unix://{folder}/none.sock"
    config = folder / "kubelet.yaml"
    config.write_text(yaml.safe_dump({**kind, "containerRuntimeEndpoint": endpoint, **settings}))
    done = run_program(
        [
            *("unshare", "--mount", "--net", "--pid", "--fork", "--kill-child"),
            *(build.build_node()["kubelet"], f"--config={config}"),
            *(f"--root-dir={folder}/root", f"--cert-dir={folder}/pki"),
        ],
        timeout=LIMIT,
    )
    assert done.returncode
    return done.stderr


def test_a_kubelet_refuses_cgroup_v1_from_the_version_on_that_the_preflight_names(
    tmp_path: Path,
) -> None:
    refuses = version(parts.KUBELET) >= FAILS_ON_CGROUP_V1
    assert (REFUSED in ends(tmp_path)) is refuses
    assert REFUSED not in ends(tmp_path, failCgroupV1=False)


def test_a_kubelet_refuses_the_feature_gates_that_the_settings_name(tmp_path: Path) -> None:
    """A kubelet rejects the feature gates that the settings list as removed.

    A kubelet names only one gate that it doesn't know, and then ends.
    """
    minor = version(parts.KUBELET)[1]
    # Gates that a later version than the next one removed may be newer than this kubelet.
    known = REMOVED.get(minor + 1, frozenset())
    gone = removed((name for names in REMOVED.values() for name in names), minor)
    assert {gate for gate in gone if UNKNOWN % gate not in ends(tmp_path, gates=[gate])} == set()
    assert UNKNOWN % "" not in ends(tmp_path, gates=sorted(known))
