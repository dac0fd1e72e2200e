"""Tests of the language host and the command plugin with the real engine and a real sshd."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from gpu_cluster.commands.engine_home import engine_home
from gpu_cluster.commands.environment import at_once
from gpu_cluster_lab import toolchain
from tests.toolchain.plugins.rig import LIMIT, Project, RigHost, alive, until

pytestmark = pytest.mark.slow

CANARY = "canary-5d1e0b77"

LIFECYCLE = """
import json, pulumi
from pulumi_command import local, remote

given = json.load(open("given.json"))
connection = remote.ConnectionArgs(**given["connection"])
first = remote.Command(
    "first",
    connection=connection,
    create="cat >/dev/null; echo create >>" + given["log"] + "; echo made",
    update="cat >/dev/null; echo update >>" + given["log"] + "; echo changed",
    delete="cat >/dev/null; echo delete >>" + given["log"],
    stdin=pulumi.Output.secret(given["stdin"]),
    triggers=given["triggers"],
)
after = local.Command(
    "after", create=first.stdout.apply(lambda text: f"echo after {text}")
)
pulumi.export("after", after.stdout)
"""


def _summary(output: str) -> dict[str, int]:
    lines = output.split("Resources:", 1)[1].splitlines()
    result = {}
    for line in map(str.split, lines):
        if line[1:] and line[-1] in ("created", "updated", "replaced", "deleted", "unchanged"):
            result[line[-1]] = int(line[-2].lstrip("+-~"))
    return result


def test_a_stack_s_life_and_no_secret_in_output_or_state(
    project: Project, host: RigHost, tmp_path: Path
) -> None:
    project.write(LIFECYCLE)
    log = tmp_path / "log"
    names = {"privateKey": "private_key", "hostKey": "host_key"}
    endpoint = {
        names.get(k, k): v
        for k, v in host.connection().items()
        if k not in ("dialErrorLimit", "perDialTimeout")
    }
    given: dict[str, Any] = {
        "connection": endpoint | {"proxy": endpoint},
        "log": str(log),
        "stdin": f"password={CANARY}\n",
        "triggers": ["1"],
    }

    def change(**changes: Any) -> None:
        given.update(changes)
        (project.folder / "given.json").write_text(json.dumps(given))

    change()
    outputs = [project.run("preview")]
    assert not log.exists()

    outputs.append(project.up())
    assert _summary(outputs[-1]) == {"created": 3}
    assert 'after: "after made"' in outputs[-1]

    outputs.append(project.up())
    assert _summary(outputs[-1]) == {"unchanged": 3}

    change(stdin=f"password={CANARY}2\n")
    outputs.append(project.up())
    assert _summary(outputs[-1]) == {"updated": 2, "unchanged": 1}
    assert log.read_text().split() == ["create", "update"]

    change(triggers=["2"])
    outputs.append(project.up())
    assert _summary(outputs[-1])["replaced"] == 1
    assert log.read_text().split() == ["create", "update", "create", "delete"]

    state = project.run("stack", "export")
    outputs.append(project.run("destroy", "--yes", "--skip-preview"))
    assert log.read_text().split() == ["create", "update", "create", "delete", "delete"]
    key = host.private_key.splitlines()[2]
    for text in [*outputs, state]:
        assert CANARY not in text
        assert key not in text


PACK = """
from pulumi_policy import EnforcementLevel, PolicyPack, ResourceValidationPolicy


def no_force(args, report):
    if "--force" in args.props.get("create", ""):
        report("no force here")


PolicyPack(
    name="pack",
    enforcement_level=EnforcementLevel.MANDATORY,
    policies=[ResourceValidationPolicy(name="no-force", description="d", validate=no_force)],
)
"""


def _write_pack(project: Project, folder: Path) -> str:
    folder.mkdir()
    (folder / "__main__.py").write_text(PACK)
    runtime = (project.folder / "Pulumi.yaml").read_text().split("\n", 1)[1]
    (folder / "PulumiPolicy.yaml").write_text(runtime)
    return str(folder)


def test_a_policy_pack_stops_what_it_forbids_and_lets_the_rest_pass(
    project: Project, tmp_path: Path
) -> None:
    pack = _write_pack(project, tmp_path / "pack")
    program = "from pulumi_command import local\nlocal.Command('it', create='echo {}')\n"
    project.write(program.format("--force"))
    output = project.run("preview", "--policy-pack", pack, succeeds=False)
    assert "no force here" in output
    project.write(program.format("--gently"))
    assert "no force here" not in project.run("preview", "--policy-pack", pack)


@pytest.mark.parametrize(
    ("program", "wanted", "unwanted"),
    [
        (
            "import helper\nhelper.fail()\n",
            ["unhandled exception", '__main__.py", line 2', "helper.py", "KeyError: 'gone'"],
            ["runpy", "language_host", "asyncio"],
        ),
        (
            "import pulumi\nraise pulumi.RunError('just this')\n",
            ["error: just this"],
            ["Traceback"],
        ),
        (
            "import pulumi\npulumi.Config().require('absent')\n",
            ["Missing required configuration variable 'plugins:absent'", "pulumi config set"],
            ["Traceback"],
        ),
        ("import sys\nsys.exit(3)\n", ["non-zero exit code: 3"], ["Traceback"]),
    ],
    ids=["exception", "RunError", "config", "exit"],
)
def test_a_failed_program_shows_the_user_s_own_lines_only(
    project: Project, program: str, wanted: list[str], unwanted: list[str]
) -> None:
    (project.folder / "helper.py").write_text("def fail():\n    {}['gone']\n")
    project.write(program)
    output = project.run("preview", succeeds=False)
    for text in wanted:
        assert text in output
    for text in unwanted:
        assert text not in output.replace("pulumi-language-python", "")


def test_a_missing_virtual_environment_is_named(project: Project) -> None:
    project.write("")
    (project.folder / "Pulumi.yaml").write_text(
        "name: plugins\nruntime: {name: python, options: {virtualenv: absent}}\n"
    )
    output = project.run("preview", succeeds=False)
    assert f"{project.folder}/absent has no bin/python" in output


def test_a_program_of_another_environment_runs_under_its_interpreter(
    project: Project, tmp_path: Path
) -> None:
    import sys
    import venv

    other = tmp_path / "other"
    venv.create(other, symlinks=True)
    packages = next(path for path in sys.path if path.endswith("site-packages"))
    next(other.glob("lib/python*/site-packages")).joinpath("all.pth").write_text(packages)
    (project.folder / "Pulumi.yaml").write_text(
        f"name: plugins\nruntime: {{name: python, options: {{virtualenv: {other}}}}}\n"
    )
    project.write("import pulumi, sys\npulumi.export('prefix', sys.prefix)\nprint('said')\n")
    output = project.up()
    assert f'prefix: "{other}"' in output
    assert "said" in output


def _children(root: int) -> set[int]:
    parents = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rsplit(")", 1)[1].split()
            except OSError:
                continue
            parents[int(entry.name)] = int(fields[1])
    processes = {root}
    while more := {pid for pid, parent in parents.items() if parent in processes} - processes:
        processes |= more
    return processes - {root}


def test_a_killed_engine_leaves_no_process(project: Project, tmp_path: Path) -> None:
    mark = tmp_path / "pid"
    project.write(
        "from pulumi_command import local\n"
        f"local.Command('it', create='echo $$ >{mark}.part; mv {mark}.part {mark}; sleep 300')\n"
    )
    pack = _write_pack(project, tmp_path / "pack")
    engine = project.start("up", "--yes", "--skip-preview", "--policy-pack", pack)
    try:
        until(mark.exists, "the command runs")
        children = _children(engine.pid)
        # Four processes must have ended: language host, policy pack, command plugin and the
        # command.
        assert len(children) >= 4
        engine.send_signal(signal.SIGKILL)
        engine.communicate(timeout=LIMIT)
        for pid in children:
            until(lambda pid=pid: not alive(pid), f"process {pid} ended")
    finally:
        engine.kill()
        engine.communicate()


def test_an_interrupt_ends_the_remote_command(
    project: Project, host: RigHost, tmp_path: Path
) -> None:
    mark = tmp_path / "pid"
    connection = {
        "host": "127.0.0.1",
        "port": host.port,
        "user": host.connection()["user"],
        "private_key": host.private_key,
        "host_key": host.host_key,
    }
    project.write(
        "from pulumi_command import remote\n"
        f"remote.Command('it', connection=remote.ConnectionArgs(**{connection!r}),\n"
        f"  create='echo $$ >{mark}.part; mv {mark}.part {mark}; sleep 300')\n"
    )
    engine = project.start("up", "--yes", "--skip-preview")
    try:
        until(mark.exists, "the command runs")
        pid = int(mark.read_text())
        engine.send_signal(signal.SIGINT)
        until(lambda: not alive(pid), "the remote command ended")
        output, _ = engine.communicate(timeout=LIMIT)
        assert engine.returncode != 0
        assert "Traceback" not in output
    finally:
        engine.kill()
        engine.communicate()


TOGETHER = """
import pulumi
from pulumi_command import local

# Each waits until all have begun.
for number in range({count}):
    local.Command(
        f"host-{{number}}",
        create=f"touch {{number}}; n=0; while [ $(ls | wc -l) -lt {count} ]; do "
        "sleep 0.2; n=$((n + 1)); [ $n -lt 100 ] || exit 1; done",
        dir="{folder}",
    )
"""


def test_all_hosts_are_at_work_at_once_on_a_machine_of_few_processors(
    project: Project, tmp_path: Path
) -> None:
    count = 4 * (os.cpu_count() or 1) + 4
    begun = tmp_path / "begun"
    begun.mkdir()
    project.write(TOGETHER.format(count=count, folder=begun))
    project.environment["PULUMI_PARALLEL"] = str(at_once(count))
    output = project.up()
    assert _summary(output)["created"] == count + 1, output


def test_the_engine_s_own_width_is_the_least_and_256_the_most() -> None:
    own = 4 * (os.cpu_count() or 1)
    assert at_once(0) == own
    assert at_once(own) == own + 8
    assert at_once(10_000) == max(own, 256)


def test_the_engine_logs_every_message_only_where_its_folder_is_there(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GPU_CLUSTER_CACHE", str(tmp_path / "cache"))
    home = engine_home(toolchain.cache_dir())
    logs = home / "logs"
    project.environment["PULUMI_HOME"] = str(logs.parent)
    project.write("")
    project.up()
    assert "create a folder" in logs.read_text()
    logs.unlink()
    logs.mkdir()
    assert engine_home(toolchain.cache_dir()) == home
    project.up()
    assert list(logs.glob("*.log"))
