"""Scripts of the phases `prepare` and `runtime`, built from the steps that a host declares."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeVar

from gpu_cluster.desired.host import DesiredHost
from gpu_cluster.hosts import disruption
from gpu_cluster.hosts.script import COMMON, Declaration, assemble, bundle, library, others
from gpu_cluster.hosts.step import RUNTIME_PATH, Given, Phase, Step
from gpu_cluster.hosts.steps import of_phase

T = TypeVar("T")
RUN_LIMIT = 1800
"""Seconds for one run of a package manager or installer, as in `steps/library/effects.sh`."""
LOCK_LIMIT = 120
"""Seconds to wait for a running package manager, as in `steps/library/preflight.sh`."""
PACKAGE_LIBRARY = (
    *("proxy", "effects", "apt_entries", "repositories"),
    *("package_manager", "transactions", "holds"),
)
"""Library files of every phase that installs packages."""
RUNNING = ("versions", "json", "cri", "running", "kubelet")
"""Shell library files that detect which software runs on a host."""
PREPARE = library(*COMMON, *PACKAGE_LIBRARY, *RUNNING, "runfile", "drop_ins", "prepare")
RUNTIME = library(*COMMON, *PACKAGE_LIBRARY, *RUNNING, "runtime")


def common(host: DesiredHost, *, remove: bool) -> dict[str, str]:
    """Return the settings that the files of `PACKAGE_LIBRARY` read.

    Args:
        remove: Whether packages that are no longer declared are removed.
    """
    wait, proxy = host.sections.packages.lock_seconds, host.sections.proxy
    return {
        **{f"GC_{name}": value for name, value in proxy.environment.items()},
        "GC_REMOVE_PACKAGES": "true" if remove else "",
        "GC_PACKAGE_LOCK_LIMIT": "" if wait == LOCK_LIMIT else str(wait),
    }


def prepared(host: DesiredHost) -> dict[str, Given]:
    """Return the inputs of each preparation step that a host declares, in order."""
    all_inputs = {name: step.given(host) for name, step in of_phase(Phase.PREPARE).items()}
    return {
        name: step_inputs for name, step_inputs in all_inputs.items() if step_inputs is not None
    }


def prepare_script(
    host: DesiredHost, join_token: str | None = None, *, inline: bool = False
) -> Declaration:
    """Return the script of phase `prepare`.

    Args:
        join_token: kubeadm's bootstrap token, a secret; a script that contains it is secret too.
            `gpu_cluster.hosts.credentials` checks that it is configured.
        inline: Whether the script contains the text of its files, as in `assemble`.
    """
    steps, inputs = of_phase(Phase.PREPARE), prepared(host)
    system = [step_inputs for step_inputs in inputs.values() if not step_inputs.runs]
    software = [step_inputs for step_inputs in inputs.values() if step_inputs.runs]
    packages = common(host, remove=host.sections.packages.remove)
    secrets = [
        step_inputs.with_token(join_token or "")
        for step_inputs in software
        if step_inputs.with_token
    ]
    settings = {
        "GC_PHASE": Phase.PREPARE.value,
        "GC_PACKAGE_LOCK_LIMIT": packages["GC_PACKAGE_LOCK_LIMIT"],
        "GC_STEPS": " ".join(inputs),
        **_merge_mappings(step_inputs.settings for step_inputs in system),
        **packages,
        **_merge_mappings(step_inputs.settings for step_inputs in software),
        **_merge_mappings(secrets),
        disruption.SETTING: preparation_disrupts(host),
    }
    rows = {
        **_merge_mappings(step_inputs.lists for step_inputs in system),
        "each_repository": [row for step_inputs in software for row in step_inputs.repositories],
        **_merge_mappings(step_inputs.lists for step_inputs in software),
    }
    files = tuple((name, step.files) for name, step in steps.items())
    bundles = [
        PREPARE,
        *(bundle(name, steps[name].files) for name in inputs),
        others(files, frozenset(inputs)),
    ]
    declared = {**rows, **_merge_mappings(step_inputs.kept for step_inputs in inputs.values())}
    return assemble(settings, rows, bundles, inline=inline, declared=declared)


def preparation_disrupts(host: DesiredHost) -> str:
    """Return the lines with the preparation settings whose change disrupts the node's pods."""
    steps, inputs = of_phase(Phase.PREPARE), prepared(host)
    kinds = {name: steps[name].disrupts for name in inputs}
    return disruption.lines(
        _merge_mappings(step_inputs.settings for step_inputs in inputs.values()), kinds
    )


def preparation_seconds(host: DesiredHost) -> int:
    """Return the seconds that all installers of a host's preparation may take together."""
    return sum(
        run_seconds(host, step_inputs.runs) + step_inputs.seconds
        for step_inputs in prepared(host).values()
    )


def runtime_script(host: DesiredHost, *, inline: bool = False) -> Declaration:
    """Return the script of phase `runtime`: the NVIDIA runtime in a host's container engine.

    Args:
        inline: Whether the script contains the text of its files, as in `assemble`.
    """
    steps, inputs = _runtime_steps(host)
    settings, disrupting = (
        _merge_mappings(step_inputs.settings for step_inputs in inputs),
        _disrupting_settings(steps),
    )
    values = {
        disruption.SETTING: runtime_disrupts(host),
        "GC_PHASE": Phase.RUNTIME.value,
        **{name: value for name, value in settings.items() if name not in disrupting},
        **common(host, remove=host.sections.runtime.toolkit.remove_packages),
        # The script library already has the default path of the NVIDIA container runtime.
        **{
            name: value
            for name, value in settings.items()
            if name in disrupting and value != RUNTIME_PATH
        },
    }
    rows = {"each_repository": [row for step_inputs in inputs for row in step_inputs.repositories]}
    toolkit, engine = steps
    name = host.sections.runtime.engine.value
    bundles = (RUNTIME, bundle("toolkit", toolkit.files), bundle(name, engine.files))
    return assemble(values, rows, bundles, inline=inline)


def runtime_disrupts(host: DesiredHost) -> str:
    """Return the line with the runtime settings whose change disrupts the pods of the node."""
    steps, inputs = _runtime_steps(host)
    settings = {
        "GC_ENGINE": host.sections.runtime.engine.value,
        **_merge_mappings(step_inputs.settings for step_inputs in inputs),
    }
    names = dict.fromkeys(("GC_ENGINE", *_disrupting_settings(steps)))
    return disruption.lines(settings, {"runtime": tuple(names)})


def runtime_seconds(host: DesiredHost) -> int:
    """Return the seconds that the installation of the NVIDIA Container Toolkit may take."""
    return sum(run_seconds(host, step_inputs.runs) for step_inputs in _runtime_steps(host)[1])


def run_seconds(host: DesiredHost, runs: int) -> int:
    """Return the time limit in seconds of package manager runs and their waits for the lock."""
    return runs * (RUN_LIMIT + host.sections.packages.lock_seconds)


def _runtime_steps(host: DesiredHost) -> tuple[tuple[Step, ...], list[Given]]:
    """Return the steps of a host's container runtime, and the inputs of each step."""
    steps = tuple(
        step
        for step in of_phase(Phase.RUNTIME).values()
        if not step.engines or host.sections.runtime.engine in step.engines
    )
    return steps, [step_inputs for step in steps if (step_inputs := step.given(host)) is not None]


def _disrupting_settings(steps: Iterable[Step]) -> tuple[str, ...]:
    return tuple(name for step in steps for name in step.disrupts)


def _merge_mappings(mappings: Iterable[Mapping[str, T]]) -> dict[str, T]:
    return {name: value for mapping in mappings for name, value in mapping.items()}
