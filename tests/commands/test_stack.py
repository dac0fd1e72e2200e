"""The digest of a stack file is that of the file on disk after the command."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from gpu_cluster.commands import stack
from gpu_cluster.commands.stack import Stack

TEXT = """config:

  gpu-cluster:cluster:
    version: v1
    kubernetes: {context: gpu-cluster-dev}
    platform: device-plugin
    pools: [{name: a, nodes: [n], gpusPerNode: 1}]
"""


@pytest.mark.parametrize("left", ["", "encryptionsalt: v1:abc\n"])
def test_a_digest_is_that_of_the_file_after_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, left: str
) -> None:
    monkeypatch.setattr(stack, "ROOT", tmp_path)
    monkeypatch.setenv("GPU_CLUSTER_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("EMBEDDED", raising=False)
    own = Stack("dev")
    own.file.write_text(TEXT + left)  # A run that was ended leaves the engine's salt.
    digest = own.digest()
    with own.unsalted():
        assert ("encryptionsalt" in own.file.read_text()) is bool(left)
    assert digest == hashlib.sha256(own.file.read_bytes()).hexdigest() == own.digest()
    assert own.file.read_text() == TEXT
