"""Upload of step files to hosts: once for each host and run, with a single command."""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import asyncssh
import pulumi
import pytest

from gpu_cluster.desired.resolve import resolve
from gpu_cluster.host_facts import HostFacts
from gpu_cluster.hosts import copies, script
from gpu_cluster.hosts.disruption import StepChange
from gpu_cluster.hosts.script import Bundle
from gpu_cluster.loading.loader import load
from gpu_cluster.rollout.component import Rollout, RolloutArgs
from gpu_cluster.rollout.plan import Change, Plan
from gpu_cluster.settings.hosts.host import Host
from gpu_cluster.ssh import upload
from gpu_cluster.ssh.answers import NOTHING
from gpu_cluster.ssh.client import Answer
from gpu_cluster.ssh.login import Login, LoginFailed, Progress, explain
from gpu_cluster_lab.simulator import hosts as simulated
from gpu_rules.faults import Fault
from tests.fixtures.documents import stack_document
from tests.mocks import declare
from tests.proofs.hosts.declared import prepare, runtime, step

VALID = load(
    stack_document(
        context="none",
        nodes=["gpu-1"],
        hosts=[
            {
                "name": "gpu-1",
                "address": "192.0.2.11",
                "hostKey": simulated.host_public_key("gpu-1"),
            }
        ],
    )
)
(HOST,) = resolve(VALID, "test").hosts
LIMITS = upload.UploadLimits(dials=3, copying=1)
SWAP = {step("swap").file: step("swap").text}
NAMED = [file.stem for file in script.FOLDER.glob("*.sh")]
"""The names of all steps."""


def take(root: Path, sent: str) -> subprocess.CompletedProcess[str]:
    """Run the upload's shell script in a scratch root, as the host would."""
    environment = {"PATH": os.environ["PATH"], "GPU_CLUSTER_ROOT": str(root)}
    return subprocess.run(
        ["sh", "-s"],
        input=sent,
        env=environment,
        text=True,
        capture_output=True,
        check=False,
    )


def texts(bundles: Iterable[Bundle]) -> dict[str, str]:
    """Return the files to upload for some bundles: file name and text."""
    return {bundle.file: bundle.text for bundle in bundles}


def lying(root: Path) -> dict[str, str]:
    """Return the uploaded files below a root: file name and text."""
    return {file.name: file.read_text() for file in (root / upload.STEPS[1:]).iterdir()}


def test_every_file_lands_where_root_alone_can_write(tmp_path: Path) -> None:
    every = (*prepare().bundles, *runtime().bundles, *map(step, NAMED))
    assert take(tmp_path, upload.taking(texts(every))).returncode == 0
    assert lying(tmp_path) == texts(every)
    assert (tmp_path / upload.STEPS[1:]).stat().st_mode & 0o077 == 0


def test_what_a_phase_was_applied_with_stays_and_what_none_needs_goes(tmp_path: Path) -> None:
    folder = tmp_path / upload.STEPS[1:]
    folder.mkdir(parents=True)
    for name in ("swap-0", "swap-1", "swap-2"):
        (folder / f"{name}.sh").write_text("of an earlier version")
    (folder.parent / "prepare").mkdir()
    (folder.parent / "prepare" / "steps").write_text("base-0\nswap-1\nothers-0\n")
    assert take(tmp_path, upload.taking(SWAP)).returncode == 0
    assert lying(tmp_path) == {"swap-1.sh": "of an earlier version"} | SWAP


def test_a_phase_that_lost_its_list_keeps_every_file_that_its_undo_may_read(tmp_path: Path) -> None:
    folder = tmp_path / upload.STEPS[1:]
    folder.mkdir(parents=True)
    (folder / "toolkit-1.sh").write_text("of the runtime")
    (folder.parent / "prepare").mkdir()
    (folder.parent / "prepare" / "steps").write_text("swap-1\n")
    (folder.parent / "runtime").mkdir()
    assert take(tmp_path, upload.taking(SWAP)).returncode == 0
    assert lying(tmp_path) == {"toolkit-1.sh": "of the runtime"} | SWAP


def test_a_copy_that_is_cut_off_changes_nothing_and_the_next_one_is_whole(tmp_path: Path) -> None:
    swap, whole = step("swap"), upload.taking(SWAP)
    folder = tmp_path / upload.STEPS[1:]
    folder.mkdir(parents=True)
    (folder / swap.file).write_text(swap.text)
    for left in ("take_files() {", "take_files <<'=== files'\n", swap.text[:100], swap.text):
        cut = whole[: whole.index(left) + len(left)]
        assert take(tmp_path, cut).returncode != 0
        assert (folder / swap.file).read_text() == swap.text
    assert take(tmp_path, whole).returncode == 0
    assert lying(tmp_path) == {swap.file: swap.text}


class Uploads:
    """Fake of the function `upload` that records the files and returns a prepared result."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, set[str]]] = []
        self.meanwhile: Callable[[], None] = lambda: None
        self.faults: list[Fault] = []

    async def __call__(
        self, host: Host, key: str, files: dict[str, str], *_: object
    ) -> Fault | None:
        assert key == "key"
        self.seen.append((host.name, {file.rpartition("-")[0] for file in files}))
        self.meanwhile()
        return self.faults.pop() if self.faults else None


@pytest.fixture
def uploads(monkeypatch: pytest.MonkeyPatch) -> Uploads:
    made = Uploads()
    monkeypatch.setattr(copies, "upload", made)
    monkeypatch.setattr(copies, "before_changes", lambda *_: pulumi.ResourceHookBinding())
    # An earlier test in this process may have set Pulumi's mocks to preview mode.
    monkeypatch.setattr(pulumi.runtime, "is_dry_run", lambda: False)
    return made


def made_copies() -> copies.Copies:
    return copies.Copies("steps", "key")


def before(made: copies.Copies, resource: str, *, new: bool = True) -> None:
    args = SimpleNamespace(name=resource, old_inputs=None if new else {})
    asyncio.run(made._before(args))  # type: ignore[arg-type]


def test_a_host_gets_what_all_of_its_commands_read_once_a_run(
    uploads: Uploads,
) -> None:
    host = HOST
    made = made_copies()
    made.want(host, prepare().bundles)
    made.want(host, runtime().bundles)
    for resource in ("hosts", "runtime", "rollout"):
        made.before(resource, [host.name])
        before(made, resource)
    ((name, bundles),) = uploads.seen
    assert name == host.name
    assert bundles >= {"library", "swap", "others", "toolkit", "containerd"}


def test_what_is_declared_while_a_copy_is_on_its_way_is_in_the_next_one(
    uploads: Uploads,
) -> None:
    host = HOST
    made = made_copies()
    made.want(host, prepare().bundles)
    uploads.meanwhile = lambda: made.want(host, runtime().bundles)
    for resource in ("hosts", "runtime"):
        made.before(resource, [host.name])
        before(made, resource)
    assert ["toolkit" in bundles for _, bundles in uploads.seen] == [False, True]


def test_a_copy_that_failed_stops_its_command_and_is_made_by_the_next(
    uploads: Uploads,
) -> None:
    host = HOST
    made = made_copies()
    made.want(host, prepare().bundles)
    made.before("hosts", [host.name])
    uploads.faults = [Fault("host gpu-1", "no connection", "one", "wait")]
    with pytest.raises(pulumi.RunError, match="host gpu-1: found no connection"):
        before(made, "hosts")
    before(made, "hosts")
    assert len(uploads.seen) == 2


def test_a_command_that_replaces_another_gets_the_files_that_went_with_it(
    uploads: Uploads,
) -> None:
    """`pulumi up --replace` undoes a host to which the run's rollout has uploaded files."""
    host = HOST
    made = made_copies()
    made.want(host, prepare().bundles)
    for resource, new in (("rollout", False), ("hosts", True), ("runtime", True)):
        made.before(resource, [host.name])
        before(made, resource, new=new)
    assert len(uploads.seen) == 2


def test_a_rollout_says_itself_what_its_hosts_get(uploads: Uploads) -> None:
    """Pulumi may start the rollout before the program has declared the hosts' Command resources."""
    desired = resolve(VALID, "test")
    (host,) = desired.hosts
    made = made_copies()
    plan = Plan(changes=(Change(host, (StepChange("sysctl"),)),))
    args = RolloutArgs(
        rollout=desired.rollout,
        has_hosts=True,
        operands=desired.operands,
        pools=desired.validation.pools,
        layouts=desired.layouts,
        private_key="key",
        plan=plan,
    )
    declare(lambda: Rollout("rollout", args, made), preview=False)
    before(made, "rollout", new=False)
    ((name, bundles),) = uploads.seen
    assert name == host.name
    assert bundles >= {"library", "swap", "others", "toolkit", "containerd"}


@pytest.mark.parametrize(
    ("error", "dials"),
    [(TimeoutError(), 3), (ConnectionRefusedError("no"), 3), (asyncssh.PermissionDenied("no"), 1)],
)
def test_a_host_that_boots_is_dialled_again_and_one_that_refuses_is_not(
    monkeypatch: pytest.MonkeyPatch, error: Exception, dials: int
) -> None:
    seen = []

    async def fail(*_: object) -> None:
        seen.append(1)
        progress = Progress(is_connected=True, is_greeted=True, keys=1)
        raise LoginFailed(explain(error, Login(HOST), progress))

    monkeypatch.setattr(upload, "_dial", fail)
    monkeypatch.setattr(upload, "FIRST_DELAY", 0)
    host = HOST
    fault = asyncio.run(upload.upload(host, "key", SWAP, LIMITS, asyncio.Semaphore(1)))
    assert len(seen) == dials
    assert ("(3 attempts)" in str(fault)) is (dials == 3)


def test_hosts_that_do_not_answer_keep_no_other_one_out(monkeypatch: pytest.MonkeyPatch) -> None:
    dead = {f"dead-{number}" for number in range(3)}
    order: list[str] = []

    async def dial(host: Host, *_: object) -> None:
        order.append(host.name)
        await asyncio.sleep(0)
        if host.name in dead:
            raise LoginFailed(explain(TimeoutError(), Login(HOST), Progress()))

    async def every() -> None:
        gate, host = asyncio.Semaphore(2), HOST
        limits = upload.UploadLimits(dials=50, copying=1)
        named = [replace(host, name=name) for name in (*sorted(dead), "gpu-1")]
        await asyncio.gather(*(upload.upload(one, "key", SWAP, limits, gate) for one in named))

    monkeypatch.setattr(upload, "_dial", dial)
    monkeypatch.setattr(upload, "FIRST_DELAY", 0)
    asyncio.run(every())
    assert order.index("gpu-1") < 10
    assert len(order) == 3 * 50 + 1


def test_the_login_shell_of_a_user_reads_one_plain_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """In csh a line end closes a quoted word, so the next lines would run as commands."""
    lines = []

    async def run(_: object, line: str, *__: object) -> Answer[str]:
        lines.append(line)
        return Answer(0, "", [], NOTHING)

    @contextlib.asynccontextmanager
    async def reached(*_: object, **__: object) -> AsyncIterator[None]:
        yield

    monkeypatch.setattr(upload, "run", run)
    monkeypatch.setattr(upload, "reached", reached)
    host = replace(HOST, user="admin")
    assert asyncio.run(upload.upload(host, "key", SWAP, LIMITS, asyncio.Semaphore(1))) is None
    assert lines == ["sudo -n timeout -k 1 1 sh -s"]


def test_the_change_of_a_host_that_was_not_reached_is_refused(
    uploads: Uploads, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = HOST
    made = copies.Copies("steps", "key", {host.name: HostFacts(error="Connection refused")})
    made.want(host, prepare().bundles)
    made.before("hosts", [host.name])
    made.before("rollout", [])
    for preview in (True, False):
        monkeypatch.setattr(pulumi.runtime, "is_dry_run", lambda: preview)  # noqa: B023
        with pytest.raises(pulumi.RunError, match=r"host gpu-1: found Connection refused; wanted"):
            before(made, "hosts")
        before(made, "rollout")
    assert uploads.seen == []


def test_a_preview_copies_nothing(uploads: Uploads, monkeypatch: pytest.MonkeyPatch) -> None:
    host = HOST
    made = made_copies()
    made.want(host, prepare().bundles)
    made.before("hosts", [host.name])
    monkeypatch.setattr(pulumi.runtime, "is_dry_run", lambda: True)
    before(made, "hosts")
    assert uploads.seen == []
