"""Tests that a run stops the plugins of a killed engine, but no plugins of another run."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from gpu_cluster.machine.orphans import NO_ENGINE, end_orphans
from gpu_cluster_lab import toolchain
from gpu_rules import charts
from tests.toolchain.plugins.rig import LIMIT, free_port


@pytest.fixture
def executable() -> Path:
    return toolchain.ensure(charts.PLUGIN)[charts.PLUGIN].path.resolve()


@contextmanager
def running(
    executable: Path, engine: str, around: tuple[str, ...] = ()
) -> Iterator[subprocess.Popen[str]]:
    """Run a Kubernetes plugin process while the context lasts."""
    with subprocess.Popen(
        [*around, str(executable), engine],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None
            assert int(process.stdout.readline()) > 0
            yield process
        finally:
            process.kill()


def test_a_plugin_without_its_engine_is_ended(executable: Path) -> None:
    with running(executable, f"127.0.0.1:{free_port()}") as orphan:
        end_orphans({executable})
        assert orphan.wait(LIMIT) is not None


def test_a_plugin_that_never_had_an_engine_is_not_ended(executable: Path) -> None:
    with running(executable, NO_ENGINE) as asked:
        with running(executable, f"127.0.0.1:{free_port()}") as orphan:
            end_orphans({executable})
            orphan.wait(LIMIT)
        assert asked.poll() is None


@pytest.mark.skipif(os.geteuid() != 0, reason="namespaces need root")
def test_a_plugin_in_another_network_is_not_ended(executable: Path) -> None:
    dead = f"127.0.0.1:{free_port()}"
    with running(executable, dead, ("unshare", "--net")) as far:
        with running(executable, dead) as orphan:
            end_orphans({executable})
            orphan.wait(LIMIT)
        assert far.poll() is None


def test_another_run_does_not_stop_a_policy_pack_from_rendering_a_chart(
    executable: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The plugin of another run's policy pack must not be stopped.

    Without its plugin, the policy pack would accept a Helm release without checking it.
    """
    monkeypatch.setenv("PATH", f"{executable.parent}{os.pathsep}{os.environ['PATH']}")
    (tmp_path / "templates").mkdir()
    (tmp_path / "Chart.yaml").write_text("apiVersion: v2\nname: a\nversion: 1.0.0\n")
    pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\n"
    (tmp_path / "templates" / "pod.yaml").write_text(pod)
    serve = charts._start_plugin

    @contextmanager
    def meanwhile() -> Iterator[object]:
        with serve() as stub:
            end_orphans({executable})
            yield stub

    monkeypatch.setattr(charts, "_start_plugin", meanwhile)
    assert len(charts.rendered({"chart": str(tmp_path)})) == 1
