"""The proof of the operator: every setting on the simulated operator, then on the real one."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

from lab.helm import Helm
from lab.real.node import RealError
from lab.real.operator import compare, site
from lab.real.operator.compare import Verdict
from lab.real.operator.policies import SETTINGS, Json, rendered


def verdicts() -> Iterator[Verdict]:
    """Judge each operand under each setting.

    Raises:
        RealError: an operator doesn't come to an end with a policy; with what it said last.
    """
    objects = policies()
    with (
        tempfile.TemporaryDirectory(prefix="gpu-cluster-operator-") as folder,
        site.running() as at,
    ):
        with at.simulated():
            simulated = [at.apply(*each, _lives) for each in zip(SETTINGS, objects, strict=True)]
        with at.real(Path(folder)) as real:
            for setting, given, seen in zip(SETTINGS, objects, simulated, strict=True):
                try:
                    found = at.apply(setting, given, real.check)
                except RealError as error:
                    raise RealError(f"{error}\n{real.log()}") from error
                yield from compare.verdicts(setting.name, seen, found)


def _lives() -> None:
    """The simulated operator is a part of the embedded cluster."""


def policies() -> list[list[Json]]:
    """Policy and ConfigMaps of each setting."""
    with tempfile.TemporaryDirectory(prefix="gpu-cluster-helm-") as folder:
        helm = Helm(Path(folder))
        try:
            return [list(rendered(helm, setting)) for setting in SETTINGS]
        finally:
            helm.close()
