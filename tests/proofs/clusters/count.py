"""Summary line of `make test-clusters`: clusters adopted and left, value files, causes.

Kinds of the marker `clusters`:

- `adopted`, `left`: names of `WAYS_IN`. A stack adopted or left such a cluster, and no pod was
  restarted.
- `real`: names of `WAYS_IN`. Both happened on real kubelets.
- `file`, `objects`: value files. The file is a stack file; real charts make the same objects of it.
- `stale`: what interrupted runs or other people left in a cluster, and the program found.
- `kubelet`: causes why a pod does not run. A real kubelet reported the cause, the program named it.
- `rendered`, `moved`: transitions of a chart from version to version. The real charts, rendered,
  change what the table of transitions says; their objects survived the change on an API server.
- `override`: labels, annotations, variables and arguments by which others overrule a setting. The
  program named each, or refused it.
- `pair`: pairs of feature and platform. The feature had an effect, or was refused by name.
- `validated`: ways in which nodes advertise GPUs that were validated.
"""

from __future__ import annotations

from collections.abc import Mapping

from tests.proofs.count import Count, Results, number_passed, number_skipped, of_all

WAYS_IN = (
    "release",
    "manifest",
    "operator",
    "hami",
    "delivered",
    "labels of others",
    "prepared hosts",
)
"""Kinds of clusters that run already, each with GPU software that somebody else installed."""


def _skipped(results: Results) -> str:
    skipped = number_skipped(results)
    return f", {skipped} skipped" if skipped else ""


def line(seen: Mapping[str, Results]) -> str:
    """Return the summary line without its first word; a skipped test shows nothing."""

    def of(kind: str) -> Results:
        return seen.get(kind, {})

    ways, objects = len(WAYS_IN), of("objects")
    return (
        f"{number_passed(of('adopted'))} of {ways} adopted and {number_passed(of('left'))} of "
        f"{ways} left without a restart ({number_passed(of('real'))} on real kubelets"
        f"{_skipped(of('real'))}), {of_all(of('file'))} value files load and {of_all(objects)} "
        f"give the same objects with real charts{_skipped(objects)}, {of_all(of('stale'))} stale "
        f"objects found, {of_all(of('kubelet'))} causes named by a real kubelet"
        f"{_skipped(of('kubelet'))}, {number_passed(of('validated'))} ways validated"
        f"{_skipped(of('validated'))}, {of_all(of('rendered'))} transitions rendered"
        f"{_skipped(of('rendered'))}, {number_passed(of('moved'))} of them on an API server"
        f"{_skipped(of('moved'))}, {of_all(of('override'))} overrides seen, "
        f"{of_all(of('pair'))} pairs of feature and platform"
    )


def counting() -> Count:
    """Return the plugin that counts tests about clusters that run already."""
    return Count("clusters", line)
