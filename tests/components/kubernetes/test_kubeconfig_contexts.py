"""A missing kubeconfig context is reported with the file and the existing contexts."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpu_cluster.kubernetes.kubeconfig_contexts import contexts, missing_context

TEXT = "contexts: [{name: one, context: {}}, {name: two, context: {}}, {name: 3}, x]\n"


def test_a_missing_context_is_named_with_file_and_contexts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = tmp_path / "a b", tmp_path / "none"
    first.write_text(TEXT)
    monkeypatch.setenv("KUBECONFIG", f"{first}:{second}")
    assert missing_context("two") is None
    text = str(missing_context("tow", "Pulumi.lab.yaml"))
    assert "\n" not in text
    for part in ("tow", "Pulumi.lab.yaml", str(first), "one, two"):
        assert part in text


@pytest.mark.parametrize("text", ["{", "[]", "contexts: 1", "[" * 3000, "\x00", "a: &a [*a]"])
def test_a_broken_kubeconfig_has_no_contexts(tmp_path: Path, text: str) -> None:
    file = tmp_path / "kubeconfig"
    file.write_text(text)
    assert contexts([file]) == []
