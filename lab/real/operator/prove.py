"""Apply all settings to the simulated, then to the real GPU Operator, and compare the results.

At the end the real operator upgrades a driver, which the simulated operator doesn't support.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

from lab.helm import Helm
from lab.real.node import RealError
from lab.real.operator import compare, site, upgrade
from lab.real.operator.compare import Verdict
from lab.real.operator.policies import SETTINGS, Json, Setting, rendered


def verdicts() -> Iterator[Verdict | upgrade.Fact]:
    """Yield the comparisons of both operators' objects, then the checks of a driver upgrade.

    Raises:
        RealError: A ClusterPolicy doesn't become ready; the message has the operator's last log
            lines.
    """
    *objects, newer = policies(*SETTINGS, upgrade.SETTING)
    with (
        tempfile.TemporaryDirectory(prefix="gpu-cluster-operator-") as folder,
        site.running() as at,
    ):
        with at.simulated():
            simulated = [
                at.apply(*each, _stay_alive) for each in zip(SETTINGS, objects, strict=True)
            ]
        with at.real(Path(folder)) as real:
            for setting, given, seen in zip(SETTINGS, objects, simulated, strict=True):
                try:
                    found = at.apply(setting, given, real.check)
                except RealError as error:
                    raise RealError(f"{error}\n{real.log()}") from error
                yield from compare.verdicts(setting.name, seen, found)
            try:
                yield from upgrade.facts(at, newer, real.check)
            except RealError as error:
                raise RealError(f"{error}\n{real.log()}") from error


def _stay_alive() -> None:
    """Do nothing: the simulated operator runs as long as the embedded cluster runs."""


def policies(*settings: Setting) -> list[list[Json]]:
    """Return the ClusterPolicy and the ConfigMaps of each setting."""
    with tempfile.TemporaryDirectory(prefix="gpu-cluster-helm-") as folder:
        helm = Helm(Path(folder))
        try:
            return [list(rendered(helm, setting)) for setting in settings]
        finally:
            helm.close()
