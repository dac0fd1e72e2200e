"""Each rule of another software's version has a row in the docs and holds on both sides of it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from gpu_cluster.host_facts import HostFacts
from gpu_cluster.hosts import preflight
from gpu_cluster.hosts.kubeadm import configuration
from gpu_cluster.hosts.observed import hardware
from gpu_cluster.hosts.script import FOLDER
from gpu_cluster.hosts.steps import every
from tests.proofs.hosts.declared import plain
from tests.proofs.world.hosts import shell

PAGE = Path("docs/reference/version-rules.md")
BASE = ("library/base", "library/preflight", "library/versions")
CONTAINERD = (*BASE, "library/containerd_config", "containerd")
ENGINE = (
    "find_engine() { engine_program=/usr/bin/true config=/none; }\nrequire_known() { :; }\n"
    "find_version() { program_version=$V; }\n"
)
DRIVER = (*BASE, "library/driver_runfile", "library/driver_packages")
GPU = 'older_gpu() { echo "${OLD-}"; }\nnouveau_loaded() { :; }\nGC_DRIVER_MODULES=auto\n'
MIGRATING = "major=${V%%.*}\nmigrating\n"
FORMAT = f'{ENGINE}require_engine\necho "$format"\n'
NEWEST = f'{ENGINE}require_engine\necho "$newest"\n'
OLDEST = 'echo "${problems:+refused}"\n'
OPTIONS = f"{GPU}GC_DRIVER_VERSION=$V GC_DRIVER_MODULES=open\nrunfile_options\n"
CDI = """\
make_root() { :; }
view_without() { :; }
choose_source() { :; }
ask() { echo "$@" >"$root/asked"; exit; }
GC_CDI=true major=${V%%.*} minor=${V#*.}
minor=${minor%%.*}
(make_texts)
grep -c -e --cdi.enabled "$root/asked"
"""
BUILTIN = """\
step_file() { echo "$2" | grep -c sandbox_mode; }
same_text() { :; }
find_version() { program_version=$V; }
configure_containerd
"""

SHELL: Mapping[str, tuple[tuple[str, ...], str, Mapping[str, str]]] = {
    "containerd-oldest": (
        CONTAINERD,
        f"{ENGINE}require_engine\n{OLDEST}",
        {"1.5.18": "refused", "1.6.0": ""},
    ),
    "containerd-format": (CONTAINERD, FORMAT, {"1.7.29": "2", "2.0.0": "3"}),
    "containerd-newest": (
        CONTAINERD,
        NEWEST,
        {"1.7.29": "2", "2.0.0": "3", "2.2.9": "3", "2.3.0": "4"},
    ),
    "containerd-migrate": (CONTAINERD, MIGRATING, {"1.7.29": "dump", "2.0.0": "migrate"}),
    "containerd-cdi": (CONTAINERD, CDI, {"1.6.38": "0", "1.7.0": "1", "2.0.0": "1"}),
    "containerd-sandbox-mode": (
        (*BASE, "library/files", "library/effects", "engine"),
        BUILTIN,
        {"1.6.38": "0", "1.7.0": "1", "1.7.29": "1", "2.0.0": "0"},
    ),
    "docker-oldest": (
        (*BASE, "docker"),
        f"{ENGINE}have() {{ :; }}\nGC_DOCKER_FORWARD=leave\nrequire_engine\n{OLDEST}",
        {"20.9.0": "refused", "20.10.0": ""},
    ),
    "docker-cdi": (
        (*BASE, "docker"),
        "make_folder() { :; }\noriginal() { :; }\nnormal() { :; }\nchoose_written() { :; }\n"
        "data_root_now() { :; }\nchoose_storage() { :; }\nmerge_json() { echo cdi=$cdi; }\n"
        "engine_version=$V GC_CDI=true GC_DOCKER_FORWARD=leave\nmake_wanted\n"
        'cat "$scratch/merged.json"\n',
        {"24.0.9": "cdi=false", "25.0.0": "cdi=true"},
    ),
    "docker-default-runtime": (
        (*BASE, "library/docker_config"),
        'by_unit() { echo "refused"; }\nflag_runtimes="nvidia=$GC_RUNTIME_PATH"\n'
        "GC_DOCKER_MIRRORS= GC_DEFAULT_RUNTIME=nvidia engine_version=$V\nchoose_written\n",
        {"20.10.24": "refused", "23.0.0": ""},
    ),
    "crio-oldest": (
        (*BASE, "crio"),
        f"{ENGINE}have() {{ :; }}\nrequire_engine\n{OLDEST}",
        {"1.23.5": "refused", "1.24.0": ""},
    ),
    "driver-open": (
        DRIVER,
        f"{GPU}GC_DRIVER_VERSION=$V\nmodule_kind\n",
        {"510.108.03": "proprietary", "515.43.04": "open"},
    ),
    "driver-open-only": (
        DRIVER,
        f"OLD=0x1b38\n{GPU}GC_DRIVER_VERSION=$V\ncheck_module_kind\n{OLDEST}",
        {"580.65.06": "", "590.44.01": "refused"},
    ),
    "driver-module-type": (
        DRIVER,
        f"{OPTIONS}",
        {
            "550.163.01": "kernel-module-build-directory=kernel-open",
            "555.42.02": "--kernel-module-type=open",
        },
    ),
    "driver-nouveau-check": (
        DRIVER,
        f"{GPU}nouveau_loaded() {{ echo nouveau; }}\nhave_runfile() {{ :; }}\n"
        'request_reboot() { echo "boot first"; }\nrequire_no_holders() { echo goes on; exit; }\n'
        "driver_loaded() { echo 1; }\nGC_DRIVER_VERSION=$V\nrunfile_install\n",
        {"550.40.06": "boot first", "550.40.07": "goes on"},
    ),
    "driver-nvlink5": (
        (*DRIVER, "library/fabric"),
        "fabric_wanted() { :; }\nfourth_generation() { :; }\noffered() { :; }\n"
        "step_file() { echo served; exit; }\nGC_DRIVER_VERSION=$V\n(fabric_on 2>&1)\n",
        {"565.57.01": "wanted branch 570 or later", "570.86.15": "served"},
    ),
}
"""For each rule in a shell file: files, lines, and what they print for a version V."""


@pytest.mark.promise(
    "Each rule that depends on another software's version has a row in the reference, and a test "
    "on both sides of its border."
)
@pytest.mark.parametrize(
    ("rule", "version"), [(rule, version) for rule, row in SHELL.items() for version in row[2]]
)
def test_a_rule_of_a_shell_file_holds_on_both_sides_of_its_border(
    tmp_path: Path, rule: str, version: str
) -> None:
    parts, lines, wanted = SHELL[rule]
    done = shell.run(tmp_path, parts, f"V={version}\n{lines}")
    said = wanted[version]
    assert (said in done.stdout) if said else done.stdout.strip() == "", done
    others = [other for other in wanted.values() if other and other not in said]
    assert not [other for other in others if other in done.stdout], done


def _found(rule: str, version: str) -> bool:
    """Return whether the Python code applies a rule to a version."""
    host, facts = plain(), HostFacts(os="debian", os_version="12", kernel="6.1", cgroup=2)
    if rule == "cgroup-v1":
        packages = host.sections.kubernetes_packages.model_copy(update={"version": version})
        sections = host.sections.model_copy(update={"kubernetes_packages": packages})
        judged = every()["kubernetes"].judge(
            replace(host, sections=sections), replace(facts, cgroup=1)
        )
        return any("does not start by itself" in fault.found for fault in judged)
    if rule == "kubeadm-api":
        return configuration._configuration_api(version) == "v1beta4"
    if rule == "kernel-oldest":
        judged = every()["kernel"].judge(host, replace(facts, kernel=version))
        return not list(judged)
    if rule == "kernel-dma-buf":
        return hardware._dma_buf(replace(facts, kernel=version, open_modules=True))
    if rule == "rhel-dnf":
        rhel = replace(facts, os="rhel", os_version=version)
        return preflight._check_for_dnf(host, rhel) is None
    raise AssertionError(rule)


CODE = {
    "cgroup-v1": ("1.34.9", "1.35.0"),
    "kubeadm-api": ("1.30.14", "1.31.0"),
    "kernel-oldest": ("4.17.19", "4.18.0"),
    "kernel-dma-buf": ("5.11.22", "5.12.0"),
    "rhel-dnf": ("7.9", "8.0"),
}
"""For each rule in the Python code: the last version without it and the first with it."""


@pytest.mark.parametrize("rule", CODE)
def test_a_rule_of_the_code_holds_from_its_border_on(rule: str) -> None:
    before, since = CODE[rule]
    assert (_found(rule, before), _found(rule, since)) == (False, True)


ELSEWHERE = {
    "cgroup-driver": "tests/components/hosts/test_cgroup_driver.py",
    "debian-sqv": "tests/components/hosts/test_software.py",
}
"""Rules whose borders other tests hold."""


def rows() -> dict[str, list[str]]:
    """Return the cells of the page's rows by rule."""
    lines = [line for line in PAGE.read_text().splitlines() if line.startswith("| ")][2:]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return {row[0]: row for row in cells}


def test_each_row_has_its_source_and_a_test_on_its_borders() -> None:
    table = rows()
    assert sorted(table) == sorted([*SHELL, *CODE, *ELSEWHERE])
    for rule, (_, _, since, _, holds, source) in table.items():
        assert re.fullmatch(r"\d+(\.\d+)*", since), rule
        assert holds, rule
        assert source, rule
        versions = SHELL[rule][2] if rule in SHELL else CODE.get(rule, ())
        assert not versions or any(version.startswith(since) for version in versions), rule
    assert all(Path(path).is_file() for path in ELSEWHERE.values())


COMPARES = re.compile(
    r"is_before \"[^\"]*\" (?P<a>\d[\d.]*)|driver_since (?P<b>\d[\d.]*)"
    r"|require_version \S+ \S+ \S+ (?P<c>\d[\d.]*)|\"\$branch\" -(?:lt|ge) (?P<d>\d+)"
)


def test_each_version_that_a_shell_file_compares_has_a_row() -> None:
    known = {row[2] for row in rows().values()}
    found = {
        next(group for group in match.groups() if group)
        for file in FOLDER.rglob("*.sh")
        for match in COMPARES.finditer(file.read_text())
    }
    assert found - known == set()
    assert len(found) > 5
