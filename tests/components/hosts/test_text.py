"""Rendered scripts pass values to the shell as data and are valid POSIX sh."""

from __future__ import annotations

import hashlib
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpu_cluster.base.compatibility import OLDEST_KERNEL
from gpu_cluster.hosts import phases, preflight
from gpu_cluster.hosts.kubeadm import scripts as cluster_script
from gpu_cluster.hosts.observed.probe import MARK, probe
from gpu_cluster.hosts.phases import LOCK_LIMIT, RUN_LIMIT
from gpu_cluster.hosts.script import FOLDER, header
from gpu_cluster.hosts.step import RUNTIME_PATH, Phase
from gpu_cluster.hosts.steps import every, of_phase
from gpu_cluster.hosts.steps.kubernetes import APPLY_LIMIT, NODE_LIMIT
from gpu_cluster.settings.hosts.packages import PackagesSettings
from gpu_cluster.settings.hosts.runtime import Engine, RuntimeSettings
from gpu_cluster.settings.hosts.system import SYSCTL, SystemSettings
from tests.components.hosts.hostile import HOSTILE, SHELLS, TEXT, shown
from tests.proofs.hosts.declared import plain, prepare, runtime


@pytest.mark.parametrize("shell", SHELLS)
@settings(max_examples=60, deadline=None)
@given(values=st.lists(TEXT, min_size=1, max_size=12))
def test_any_value_arrives_as_it_is(shell: str, values: list[str]) -> None:
    twice = [value for value in values for _ in range(2)]
    assert shown(shell, values) == values + twice


@pytest.mark.full
@pytest.mark.parametrize("shell", SHELLS)
@settings(max_examples=1000, deadline=None)
@given(value=TEXT)
def test_a_thousand_values_arrive_as_they_are(shell: str, value: str) -> None:
    assert shown(shell, [value]) == [value] * 3


@pytest.mark.parametrize("value", HOSTILE)
def test_no_name_reaches_a_file_that_can_not_carry_it(value: str) -> None:
    with pytest.raises(ValueError, match="wanted"):
        SystemSettings(modules=(value,))
    with pytest.raises(ValueError, match="wanted"):
        SystemSettings(sysctl={value: "1"})
    with pytest.raises(ValueError, match="wanted"):
        SystemSettings(firewall_ports=(value,))
    if not value.isprintable() or value != value.strip() or not value:
        with pytest.raises(ValueError, match="wanted"):
            SystemSettings(sysctl={"net.core.somaxconn": value})


def test_a_value_with_a_nul_is_refused() -> None:
    with pytest.raises(ValueError, match="NUL"):
        header({"A": "\0"})


def test_rendering_is_pure() -> None:
    assert prepare() == prepare()
    assert runtime() == runtime()
    assert runtime(RuntimeSettings(cdi=False)) != runtime()


def test_the_call_is_the_last_line() -> None:
    for script in (prepare(), runtime()):
        assert script.splitlines()[-1] == 'main "$@" </dev/null'


def test_each_file_of_a_step_is_one_readable_line_of_the_declaration() -> None:
    lines = prepare().partition("loaded='\n")[2].partition("'\n")[0].splitlines()
    declared = [*phases.prepared(plain())]
    assert {"swap", "modules", "sysctl", "nouveau"} <= {*declared}
    assert [line.rpartition("-")[0] for line in lines] == ["library", *declared, "others"]
    digest = hashlib.sha256((FOLDER / "swap.sh").read_bytes()).hexdigest()
    assert f"swap-{digest}" in lines
    rest = {file for bundle in prepare().bundles for file in bundle.files}
    assert rest >= of_phase(Phase.PREPARE).keys()


def test_a_host_knows_all_steps_in_their_order() -> None:
    (words,) = re.findall(r"^all_steps='(.*)'$", prepare(inline=True), re.MULTILINE)
    assert words.split() == [*of_phase(Phase.PREPARE)]


def test_a_step_is_a_script_and_a_module_beside_it() -> None:
    scripts = {file.stem for file in FOLDER.glob("*.sh")}
    assert scripts == every().keys() == {f.stem for f in FOLDER.glob("[!_]*.py")}
    for name, step in every().items():
        assert name in step.files


def test_every_file_belongs_to_a_phase() -> None:
    declared = (prepare(), *(runtime(RuntimeSettings(engine=engine)) for engine in Engine))
    bundles = [bundle for script in declared for bundle in script.bundles]
    bundles += [*cluster_script.JOINING, cluster_script.ACCESS]
    bundles += [cluster_script.CONTROL_PLANE, cluster_script.LEND]
    read = {file for bundle in bundles for file in bundle.files}
    assert read == {str(file.relative_to(FOLDER).with_suffix("")) for file in FOLDER.rglob("*.sh")}


def test_the_probe_has_a_function_for_each_kind_that_is_expected() -> None:
    texts = {file: file.read_text() for file in FOLDER.rglob("*.sh")}
    kinds = {kind for text in texts.values() for kind in re.findall(r"^ +expect (\w+)", text, re.M)}
    assert len(kinds) > 8
    for kind in kinds:
        assert f"\nfound_{kind}() {{\n" in probe()
    for file, text in texts.items():
        assert "\nfound_" not in text.partition(MARK)[0], file


def test_a_busy_host_gets_as_long_as_its_init_system_gives_a_unit() -> None:
    # systemd's defaults of DefaultTimeoutStartSec and DefaultTimeoutStopSec are 90 s
    # (systemd-system.conf(5)).
    text = "".join(file.read_text() for file in FOLDER.rglob("*.sh"))
    asked = r"(?:timeout|bounded) (\d+) systemctl (?:start|stop|restart|reload)\b"
    limits = [int(limit) for limit in re.findall(asked, text)]
    assert len(limits) > 8
    assert min(limits) > 90


def test_preflight_and_script_judge_by_the_same_values() -> None:
    library = "".join(file.read_text() for file in (FOLDER / "library").iterdir())
    defaults = dict(re.findall(r'^: "\$\{GC_(\w+):=(.*?)\}"', library, re.MULTILINE))
    assert defaults["SYSTEMS"].split() == list(preflight.SYSTEMS)
    assert defaults["KERNEL"] == ".".join(map(str, OLDEST_KERNEL))
    assert defaults["DISK_MIB"] == str(preflight.DISK_MIB)
    assert defaults["RUNTIME_PATH"] == RUNTIME_PATH
    assert defaults["PACKAGE_RUN_LIMIT"] == str(RUN_LIMIT)
    assert defaults["PACKAGE_LOCK_LIMIT"] == str(LOCK_LIMIT)
    assert defaults["UPGRADE_LIMIT"] == str(APPLY_LIMIT)
    assert defaults["UPGRADE_NODE_LIMIT"] == str(NODE_LIMIT)
    assert PackagesSettings().lock_seconds == LOCK_LIMIT


def test_the_kernel_parameters_of_kubernetes_stand_in_their_step() -> None:
    rows = re.findall(r'^    "\$@" (\S+) (\S+)$', (FOLDER / "sysctl.sh").read_text(), re.MULTILINE)
    assert dict(rows) == SYSCTL
    assert "each_sysctl" not in prepare()
    assert f'"$@" {rows[0][0]} 1' in prepare(system=SystemSettings(sysctl={"vm.swappiness": "1"}))


@pytest.mark.parametrize("engine", [None, *Engine], ids=lambda engine: engine or "prepare")
def test_no_function_takes_the_name_of_another(engine: Engine | None) -> None:
    # All files of one script share their function names: a later function would replace an earlier
    # one. Lists of a declaration (`each_…`) are replaced on purpose.
    text = (
        prepare(inline=True)
        if engine is None
        else runtime(RuntimeSettings(engine=engine), inline=True)
    )
    names = re.findall(r"^((?!each_)\w+)\(\)", text, flags=re.MULTILINE)
    assert {name for name in names if names.count(name) > 1} == set()


def test_each_way_to_fail_that_a_script_names_is_defined() -> None:
    texts = [path.read_text(encoding="utf-8") for path in FOLDER.rglob("*.sh")]
    named = {name for text in texts for name in re.findall(r"\bfail_\w+", text)}
    defined = {
        name for text in texts for name in re.findall(r"^(fail_\w+)\(\)", text, re.MULTILINE)
    }
    assert named == defined
