"""Stack files: faulty ones give the expected error message, committed ones are valid."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from gpu_cluster.base import yaml_file
from gpu_cluster.loading.loader import load
from gpu_cluster.loading.stack_file import load_stack_file
from gpu_cluster.loading.warnings import warnings
from gpu_cluster_lab import toolchain
from gpu_rules.faults import ConfigError, InputError
from tests.fixtures.programs import run_program

ROOT = Path(__file__).resolve().parents[3]
BROKEN = sorted((Path(__file__).parent / "fixtures" / "stack_files").glob("*.yaml"))
STACKS = sorted(ROOT.glob("Pulumi.*.yaml"))


def test_there_are_at_least_25_broken_files() -> None:
    assert len(BROKEN) >= 25


@pytest.mark.parametrize("path", BROKEN, ids=lambda path: path.stem)
def test_a_broken_file_gives_its_exact_message(path: Path) -> None:
    with pytest.raises(ConfigError) as raised:
        load_stack_file(path)
    assert f"{raised.value}\n" == path.with_suffix(".txt").read_text(encoding="utf-8")


@pytest.mark.parametrize("path", BROKEN, ids=lambda path: path.stem)
def test_every_problem_names_path_found_wanted_and_cure(path: Path) -> None:
    with pytest.raises(ConfigError) as raised:
        load_stack_file(path)
    for problem in raised.value.faults:
        assert all((problem.place, problem.found, problem.wanted, problem.cure))


@pytest.mark.parametrize(
    "path",
    [path for path in BROKEN if "not-to-be-repeated" in path.read_text(encoding="utf-8")],
    ids=lambda path: path.stem,
)
def test_a_plain_text_secret_is_not_repeated(path: Path) -> None:
    with pytest.raises(ConfigError) as raised:
        load_stack_file(path)
    assert "not-to-be-repeated" not in str(raised.value)
    assert "pulumi config set --secret gpu-cluster:sshPrivateKey" in str(raised.value)


def test_an_encrypted_secret_is_accepted(tmp_path: Path) -> None:
    text = (ROOT / "Pulumi.dev.yaml").read_text(encoding="utf-8")
    path = tmp_path / "Pulumi.dev.yaml"
    path.write_text(f"{text}  gpu-cluster:sshPrivateKey:\n    secure: v1:AAAA\n")
    assert load_stack_file(path) == load_stack_file(ROOT / "Pulumi.dev.yaml")


@pytest.mark.parametrize("path", STACKS, ids=lambda path: path.name)
def test_a_committed_stack_file_is_valid_without_warnings(path: Path) -> None:
    cluster = load_stack_file(path)
    assert list(warnings(cluster)) == []


def test_the_worked_examples_are_there() -> None:
    assert {"Pulumi.dev.yaml", "Pulumi.staging.yaml", "Pulumi.prod.yaml"} <= {
        path.name for path in STACKS
    }


def test_the_dev_stack_is_four_nodes_of_eight_gpus_and_two_hosts_on_loopback() -> None:
    cluster = load_stack_file(ROOT / "Pulumi.dev.yaml")
    assert [(pool.size, pool.gpus) for pool in cluster.pools] == [(4, 32)]
    assert {host.address for host in cluster.hosts} == {"127.0.0.1"}
    assert len(cluster.hosts) == 2


def test_the_prod_file_declares_what_its_comments_say() -> None:
    cluster = load_stack_file(ROOT / "Pulumi.prod.yaml")
    pools = {pool.name: pool for pool in cluster.pools}
    assert pools["h100"].node_names[0] == "h100-01"
    assert pools["a100"].node_names == ("a100-1", "a100-2", "a100-4", "a100-spare")
    assert (pools["l4"].size, pools["l4"].node_names) == (12, ())
    assert (pools["system"].taints, dict(pools["system"].labels)) == (
        (),
        {"example.com/role": "system"},
    )


def test_the_committed_addresses_belong_to_nobody() -> None:
    """RFC 5737, RFC 3849 and RFC 2606 reserve these addresses and names for documentation."""
    for name in ("staging", "prod"):
        for host in load_stack_file(ROOT / f"Pulumi.{name}.yaml").hosts:
            assert host.address.startswith(("192.0.2.", "2001:db8:")) or host.address.endswith(
                ".example.com"
            )


def test_a_missing_file_is_a_problem_with_a_cure(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"no such file or directory.*; cure: .*check"):
        load_stack_file(tmp_path / "Pulumi.nothing.yaml")


def test_bytes_that_are_not_utf8_are_a_problem_with_their_line(tmp_path: Path) -> None:
    path = tmp_path / "Pulumi.x.yaml"
    path.write_bytes(b"config:\n  a: \xff\n")
    with pytest.raises(ConfigError, match=r"\(line 2\)"):
        load_stack_file(path)


def test_an_alias_inside_its_own_anchor_is_refused() -> None:
    with pytest.raises(InputError, match="alias inside its own anchor"):
        yaml_file.parse("a: &a [*a]\n")


def test_an_object_tag_is_refused_and_not_constructed() -> None:
    with pytest.raises(InputError, match="could not determine a constructor"):
        yaml_file.parse("!!python/object/apply:os.getcwd []\n")


def test_deep_nesting_is_refused_and_ends() -> None:
    with pytest.raises(InputError, match="nested"):
        yaml_file.parse("[" * 5000 + "]" * 5000)


def test_an_anchor_used_twice_is_read() -> None:
    assert yaml_file.parse("a: &a {x: 1}\nb: *a\nc: {<<: *a, y: 2}\n").value == {
        "a": {"x": 1},
        "b": {"x": 1},
        "c": {"x": 1, "y": 2},
    }


SCALARS = "{a: yes, b: on, c: 010, e: 0o17, f: 1_000, g: 12:30, h: 595.91, i: ~, j: True, "
SCALARS += "l: 0.20.0, m: 0x1f, n: 0b11, o: .5, p: 1e3, q: y, r: !!str 5, s: '8'}"


def test_scalars_have_the_types_that_the_engine_gives_them() -> None:
    """The expected values are the output of `pulumi config get` of Pulumi 3.250.0."""
    assert yaml_file.parse(SCALARS).value == {
        **{"a": "yes", "b": "on", "c": 8, "e": 15, "f": 1000, "g": "12:30", "h": 595.91},
        **{"i": None, "j": True, "l": "0.20.0", "m": 31, "n": 3, "o": 0.5, "p": 1000.0},
        **{"q": "y", "r": "5", "s": "8"},
    }


def engines_reading(directory: Path, stack: str) -> Any:
    """Return the structured config value that the real Pulumi reads from the stack file."""
    pulumi = str(toolchain.ensure("pulumi")["pulumi"].path)
    (directory / "Pulumi.yaml").write_text("name: gpu-cluster\nruntime: python\n")
    state = directory / "state"
    state.mkdir()
    environment = {
        **os.environ,
        "HOME": str(directory),
        "PULUMI_HOME": str(directory / "home"),
        "PULUMI_BACKEND_URL": f"file://{state}",
        "PULUMI_CONFIG_PASSPHRASE": "for this test only",
        "PULUMI_SKIP_UPDATE_CHECK": "true",
    }
    environment.pop("PULUMI_CONFIG_PASSPHRASE_FILE", None)

    def run(*arguments: str) -> str:
        done = run_program(
            [pulumi, *arguments, "--cwd", str(directory), "--non-interactive"],
            env=environment,
            timeout=60,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    run("stack", "init", stack)
    return json.loads(run("config", "get", "gpu-cluster:cluster", "--stack", stack))


def test_pulumis_own_engine_gives_scalars_the_same_types(tmp_path: Path) -> None:
    stack = tmp_path / "Pulumi.t.yaml"
    stack.write_text(f"config:\n  gpu-cluster:cluster: {SCALARS}\n")
    ours = yaml_file.read(stack).value["config"]["gpu-cluster:cluster"]
    assert engines_reading(tmp_path, "t") == ours


@pytest.mark.parametrize("path", STACKS, ids=lambda path: path.name)
def test_pulumis_own_engine_reads_the_same_cluster(path: Path, tmp_path: Path) -> None:
    shutil.copy(path, tmp_path)
    read = engines_reading(tmp_path, path.name.split(".")[1])
    assert load(read) == load_stack_file(path)
