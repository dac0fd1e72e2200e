"""Tests of the lab's own process of Pulumi's Kubernetes plugin."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lab.helm import Helm

NO_CLUSTER = {
    "apiVersion": "v1",
    "kind": "Config",
    "clusters": [{"name": "none", "cluster": {"server": "http://127.0.0.1:1"}}],
    "contexts": [{"name": "none", "context": {"cluster": "none"}}],
    "current-context": "none",
}


@pytest.mark.slow
def test_the_kubeconfig_that_the_plugin_copies_stays_in_its_own_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shared, own, kubeconfig = tmp_path / "shared", tmp_path / "own", tmp_path / "kubeconfig"
    shared.mkdir()
    monkeypatch.setenv("TMPDIR", str(shared))
    kubeconfig.write_text(json.dumps(NO_CLUSTER))
    Helm(own, kubeconfig).close()
    assert list(shared.iterdir()) == []
    assert list(own.glob("kubeconfig*"))
