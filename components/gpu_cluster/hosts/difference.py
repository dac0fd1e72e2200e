"""Differences between hosts, their desired settings and their last applied settings.

Pure functions.
A host records both its applied settings and the checksums of the files placed on it
(`components/gpu_cluster/hosts/steps/library/base.sh`). So an edit of the stack file is not mistaken
for a change that somebody made on the host.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from gpu_cluster.desired.host import DesiredHost
from gpu_cluster.desired.kubeadm_cluster import DesiredKubeadmCluster
from gpu_cluster.findings import APPLIED, PHASES, Aspect, Finding, Findings, Kind, Subject
from gpu_cluster.host_facts import HostFacts
from gpu_cluster.hosts.kubeadm.scripts import init_script, join_script, member_script
from gpu_cluster.hosts.phases import prepare_script, runtime_script
from gpu_cluster.hosts.script import Declaration, words
from gpu_cluster.hosts.steps import every

STEPS = "STEPS"
"""Name of the setting that lists the declared steps."""
OTHERS = "others"
"""Name of the script file with the steps that a host does not declare."""
UNKNOWN_HASH = f"sha256:{'0' * 64}"
"""Placeholder for the hash of the certificate authority, which a host does not record."""
DIGITS = 8
"""Hexadecimal digits shown of a file's SHA-256."""
CERTIFICATE = "certificate until "
"""Start of what the probe prints about a certificate that ends soon (`library/certificates.sh`)."""
SYSCTL = "sysctl"
"""Start of the names by which a host records kernel parameters, and name of their step."""


@dataclass(frozen=True, kw_only=True)
class HostDifference:
    """Findings about hosts, each by host name.

    Attributes:
        unreached: Facts of the hosts that the inspection could not reach: the error and its cure.
            Such a host has no other findings.
        prepare: Findings about the host's preparation.
        runtime: Findings about the host's container runtime.
        cluster: Findings about the host's membership in the cluster that the stack creates.
        reboot: Reasons why the host must be rebooted, or its node uncordoned.
    """

    unreached: Mapping[str, HostFacts] = field(default_factory=dict)
    prepare: Mapping[str, Findings] = field(default_factory=dict)
    runtime: Mapping[str, Findings] = field(default_factory=dict)
    cluster: Mapping[str, Findings] = field(default_factory=dict)
    reboot: Mapping[str, Findings] = field(default_factory=dict)

    @cached_property
    def findings(self) -> Findings:
        """Return all findings about hosts."""
        return tuple(finding for host in self.by_host.values() for finding in host)

    @cached_property
    def by_host(self) -> Mapping[str, Findings]:
        """Return all findings about each host, by host name."""
        by_host: dict[str, list[Finding]] = {}
        for phase_findings in (self.prepare, self.runtime, self.cluster, self.reboot):
            for host, findings in phase_findings.items():
                by_host.setdefault(host, []).extend(findings)
        return {host: tuple(findings) for host, findings in by_host.items()}


def compare(
    hosts: Iterable[DesiredHost],
    kubeadm: DesiredKubeadmCluster | None,
    facts: Mapping[str, HostFacts],
    cordoned: Collection[str] = (),
    validated: Mapping[str, str] | None = None,
) -> HostDifference:
    """Compare hosts with their desired settings and with their last applied settings.

    Args:
        kubeadm: Cluster that the stack creates. None: it creates none.
        facts: Facts that the hosts reported, by host name.
        cordoned: Nodes that an interrupted run left cordoned.
        validated: Host that an earlier run prepared and validated for a node, by node.
    """
    findings: dict[str, dict[str, Findings]] = {"reboot": {}, **{phase: {} for phase in PHASES}}
    for host in hosts:
        host_facts = facts.get(host.name)
        if host_facts is None or host_facts.error:
            continue
        lost = (validated or {}).get(host.node) == host.name and not host_facts.applied
        for phase, declaration in desired_phases(host, kubeadm).items():
            findings[phase][host.name] = tuple(
                _compare_phase(host, phase, declaration, host_facts, lost)
            )
        findings["reboot"][host.name] = tuple(_reboot(host, host_facts, cordoned))
    return HostDifference(
        unreached={name: host_facts for name, host_facts in facts.items() if host_facts.error},
        **{
            phase_name: {
                host: host_findings for host, host_findings in by_host.items() if host_findings
            }
            for phase_name, by_host in findings.items()
        },
    )


def desired_phases(
    host: DesiredHost, kubeadm: DesiredKubeadmCluster | None
) -> dict[str, Declaration | None]:
    """Return the script of each phase of a host; None for a phase that the host must not have."""
    member: Declaration | None = None
    if kubeadm is not None and host.name == kubeadm.first.name:
        member = init_script(host)
    elif kubeadm is not None and host.role.is_control_plane:
        member = member_script(host)
    elif kubeadm is not None:
        member = join_script(host, "", (UNKNOWN_HASH,))
    return {
        "prepare": prepare_script(host),
        "runtime": runtime_script(host) if host.configures_runtime else None,
        "cluster": member,
    }


def _compare_phase(
    declared: DesiredHost, phase: str, declaration: Declaration | None, facts: HostFacts, lost: bool
) -> Iterator[Finding]:
    host, applied = declared.name, phase in facts.applied
    if declaration is None:
        if applied:
            yield Finding(
                Kind.CHANGE, Subject.HOST, host, Aspect.PHASE, phase, "applied", "not declared"
            )
    elif not applied and lost:
        yield Finding(
            Kind.DRIFT, Subject.HOST, host, Aspect.PHASE, phase, "applied", "gone from the host"
        )
    elif not applied:
        works = "; ".join(steps_in_words(declared, phase))
        now = f"{APPLIED}: {works}" if works else APPLIED
        yield Finding(Kind.CHANGE, Subject.HOST, host, Aspect.PHASE, phase, "", now, first=True)
    elif phase in facts.settings:
        yield from _compare_settings(host, phase, declaration, facts)
    if declaration is not None and applied:
        yield from _find_drift(host, phase, facts)


def steps_in_words(host: DesiredHost, phase: str) -> list[str]:
    """Return what the steps of a phase do to a host, in the order in which they run."""
    return [
        step.does or name
        for name, step in every().items()
        if step.phase.value == phase
        and (not step.engines or host.sections.runtime.engine in step.engines)
        and step.given(host) is not None
    ]


def _find_drift(host: str, phase: str, facts: HostFacts) -> Iterator[Finding]:
    """Yield findings about drift; after an interrupted run only that the phase is unfinished."""
    if phase in facts.unfinished:
        first = phase not in facts.settings
        yield Finding(
            Kind.CHANGE, Subject.HOST, host, Aspect.PHASE, phase, "begun", "applied", first=first
        )
        return
    for drifted in facts.drift.get(phase, ()):
        yield _drift_finding(host, drifted, facts)


def files(host: DesiredHost, findings: Iterable[Finding]) -> tuple[str, ...]:
    """Return the configuration files that a run may write on a host because of edits, sorted.

    Args:
        findings: Findings about the host.
    """
    steps, owners = every(), dict(_setting_owners(host))
    changed: set[str] = set()
    for finding in findings:
        if finding.kind is not Kind.CHANGE:
            continue
        if finding.aspect is Aspect.PHASE:
            changed |= {
                name
                for name, step in steps.items()
                if step.phase.value == finding.key
                and (not step.engines or host.sections.runtime.engine in step.engines)
                and (step.given(host) is not None or not finding.first)
            }
        elif finding.aspect is Aspect.STEP:
            changed.add(finding.key)
        elif finding.aspect is Aspect.SYSCTL:
            # Read the settings of this step; a host without declared parameters has none.
            changed.add(SYSCTL)
        elif owner := owners.get(finding.key) or owners.get(finding.key.partition(".")[0]):
            changed.add(owner)
    written = {path for name in changed & steps.keys() for path in steps[name].writes}
    return tuple(sorted(written))


def every_file() -> tuple[str, ...]:
    """Return the configuration files that steps write, which an undo restores, sorted."""
    return tuple(sorted({path for step in every().values() for path in step.writes}))


def _setting_owners(host: DesiredHost) -> Iterator[tuple[str, str]]:
    """Yield the name of each setting that a host records, as findings show it, and its step."""
    for name, step in every().items():
        if step.engines and host.sections.runtime.engine not in step.engines:
            continue
        step_inputs = step.given(host)
        if step_inputs is not None:
            for setting in words(step_inputs.settings, {**step_inputs.lists, **step_inputs.kept}):
                yield setting, name
                yield setting.partition(".")[0], name


def _compare_settings(
    host: str, phase: str, declaration: Declaration, facts: HostFacts
) -> Iterator[Finding]:
    """Yield the desired settings that differ from the settings last applied to the host."""
    recorded, desired = facts.settings[phase], declaration.settings
    for name in dict.fromkeys((*recorded, *desired)):
        was, now = recorded.get(name, ""), desired.get(name, "")
        if name == STEPS:
            yield from _compare_steps(host, was.split(), now.split())
        elif was != now:
            head, _, key = name.partition(".")
            aspect, key = (Aspect.SYSCTL, key) if head == SYSCTL else (Aspect.RECORDED, name)
            yield Finding(Kind.CHANGE, Subject.HOST, host, aspect, key, was, now)
    before, after = (
        _file_digests(facts.steps.get(phase, ())),
        _file_digests(b.line for b in declaration.bundles),
    )
    for name in sorted(before.keys() & after.keys()):
        if not after[name] & before[name]:
            # The file with the undeclared steps' scripts changes whenever the declared steps
            # change, so it is not a finding then.
            if name == OTHERS and recorded.get(STEPS) != desired.get(STEPS):
                continue
            was, now = (min(sums)[:DIGITS] for sums in (before[name], after[name]))
            yield Finding(Kind.CHANGE, Subject.HOST, host, Aspect.SCRIPT, name, was, now)


def _compare_steps(host: str, before: list[str], after: list[str]) -> Iterator[Finding]:
    for name in before:
        if name not in after:
            yield Finding(
                Kind.CHANGE, Subject.HOST, host, Aspect.STEP, name, "applied", "not declared"
            )
    for name in after:
        if name not in before:
            yield Finding(Kind.CHANGE, Subject.HOST, host, Aspect.STEP, name, "", "applied")


def _file_digests(lines: Iterable[str]) -> dict[str, set[str]]:
    """Return the checksums by script file; after an interrupted rollout a file may have two."""
    digests: dict[str, set[str]] = {}
    for line in lines:
        name, _, digest = line.rpartition("-")
        digests.setdefault(name, set()).add(digest)
    return digests


def _drift_finding(host: str, drifted: str, facts: HostFacts) -> Finding:
    """Return the finding about a file or another value that changed since the host was applied."""
    if drifted.startswith(CERTIFICATE):
        return Finding(Kind.DUE, Subject.HOST, host, Aspect.REASON, f"control plane's {drifted}")
    if not drifted.startswith("/"):
        return Finding(
            Kind.DRIFT, Subject.HOST, host, Aspect.VALUE, drifted, "as applied", "changed"
        )
    now = "missing" if facts.digests.get(drifted) == "missing" else "another content"
    return Finding(Kind.DRIFT, Subject.HOST, host, Aspect.FILE, drifted, "as applied", now)


def _reboot(host: DesiredHost, facts: HostFacts, cordoned: Collection[str]) -> Iterator[Finding]:
    for reason in facts.reboot:
        yield Finding(Kind.DUE, Subject.HOST, host.name, Aspect.REBOOT, reason)
    if not facts.reboot and host.node in cordoned:
        yield Finding(
            Kind.DUE, Subject.HOST, host.name, Aspect.REASON, "its node was left cordoned"
        )
