"""Run the documentation: ``make test-docs``, or one page with ``ONLY=first-hour``.

README, tutorial and how-tos are run in their order, each by one shell, in a copy of the project
with a home, a cache and a state of its own. The cache has links to this machine's tools and file
systems of hosts. Between pages the copy is reset, and the embedded cluster is as after `make up`.
Translations are not run, but compared with their page in English. The last line counts commands,
settings, error texts and dead links.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import yaml

from gpu_cluster.commands.files import ROOT, copy_project
from gpu_cluster_lab import toolchain
from maintenance import settings_page as reference
from tests import error_texts, pictures
from tests.proofs.docs.pages import blocks, commands, commands_of, dead_links, manuals, pages
from tests.proofs.docs.settings import of_block, whole_file
from tests.proofs.docs.translations import differences, translations

LIMIT = 3600
"""Time limit of one page, in seconds."""
LINKED = ("tools", "roots")
"""Folders of this machine's cache that the proof's cache links to."""
KEYS = ("id_ed25519", "gpu-cluster")
"""Names of the SSH keys that the pages read."""
CHANGING = re.compile(
    r"(?:make|gpu-cluster) (?:up|down|leave|destroy|start)\b|kubectl|lab\.simulator"
)
"""Commands after which the embedded cluster may not be as after `make up`."""
OURS = re.compile(r"PULUMI_|GPU_|KUBECONFIG|STACK$|MAKE|MFLAGS")
"""Beginnings of variables that a user's shell does not have."""
APPLY = ROOT / "tests" / "proofs" / "docs" / "apply.py"


@dataclass(frozen=True)
class Reader:
    """A user who starts from nothing: a copy of the project, a home and a cache.

    Attributes:
        folder: Folder of everything that the user has.
    """

    folder: Path

    @classmethod
    def make(cls, folder: Path) -> Reader:
        """Make the copy as a git repository, the home with an SSH key, and the cache."""
        reader = cls(folder)
        for path in (reader.project, reader.home / ".ssh", reader.cache):
            path.mkdir(parents=True)
        copy_project(reader.project)
        # `make` must not install the virtual environment again, which is the one of this project.
        os.utime(reader.project / "requirements.lock", (0, 0))
        for name in LINKED:
            (source := toolchain.cache_dir() / name).mkdir(parents=True, exist_ok=True)
            (reader.cache / name).symlink_to(source.resolve())
        for name in KEYS:
            key = str(reader.home / ".ssh" / name)
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key], check=True)
        reader.shell(
            "git init --quiet && git add --all && git -c user.name=reader -c "
            "user.email=reader@example.org commit --quiet --message 'Begin'",
            "git",
        )
        return reader

    @property
    def project(self) -> Path:
        """Return the folder of the copy."""
        return self.folder / "project"

    @property
    def home(self) -> Path:
        """Return the home folder."""
        return self.folder / "home"

    @property
    def cache(self) -> Path:
        """Return the folder of the cache."""
        return self.folder / "cache"

    @property
    def environment(self) -> dict[str, str]:
        """Return the environment of a new shell of the user."""
        kept = {name: value for name, value in os.environ.items() if not OURS.match(name)}
        return {
            **kept,
            "HOME": str(self.home),
            "GPU_CLUSTER_CACHE": str(self.cache),
            # The pages name the installed command, as an activated environment has it.
            "PATH": os.pathsep.join([str(self.project / "venv" / "bin"), os.environ["PATH"]]),
        }

    def shell(self, script: str, name: str) -> tuple[int, list[str]]:
        """Run a script; return its exit code and the lines that it writes to descriptor 3.

        Args:
            script: The script, for bash.
            name: Name of the file that gets the output.
        """
        log, told = self.folder / f"{name}.log", self.folder / f"{name}.told"
        with log.open("w") as output:
            done = subprocess.run(
                ["timeout", "-k", "30", str(LIMIT), "bash", "--noprofile", "--norc", "-c", script],
                cwd=self.project,
                env={**self.environment, "TOLD": str(told)},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                check=False,
            )
        return done.returncode, told.read_text().split() if told.exists() else []

    def reset(self) -> None:
        """Undo what a page did to files, and forget its stacks on other clusters."""
        self.shell(
            "git checkout --quiet . && git clean --quiet -fdx -e venv; "
            'rm -rf "$GPU_CLUSTER_CACHE/state" ~/.gpu-* ~/gpu-*',
            "reset",
        )

    def stop(self) -> None:
        """Stop all embedded clusters of the cache and their hosts."""
        for name in sorted(path.name for path in (self.cache / "embedded").glob("[!.]*/")):
            self.shell(
                f"venv/bin/python -m gpu_cluster_lab.simulator down --name {shlex.quote(name)}",
                "stop",
            )


def script_of(path: Path) -> str:
    """Return the script that does what a page says: its settings and its commands in order."""
    lines = ["set -eo pipefail", 'exec 3> "$TOLD"']
    for block in blocks(path):
        if (file := whole_file(block)) is not None:
            stack, text = file
            lines.append(f"printf %s {shlex.quote(text)} > Pulumi.{stack}.yaml")
        elif (added := of_block(block)) is not None:
            command = shlex.join(["venv/bin/python", str(APPLY), "Pulumi.dev.yaml"])
            lines.append(f"printf %s {shlex.quote(yaml.safe_dump(added))} | {command}")
        for command in commands_of(block):
            if not command.mark:
                shown = shlex.quote(f"\n[{command.page}:{command.line}] $ {command.text}")
                lines += [f"printf '%s\\n' {shown}", f"echo {command.line} >&3", command.text]
    return "\n".join([*lines, "echo end >&3", ""])


def run_page(reader: Reader, path: Path) -> tuple[int, str]:
    """Run a page; return how many of its commands ran, and what failed, if something did."""
    todo = [command for command in commands(path) if not command.mark]
    if not todo:
        return 0, ""
    code, told = reader.shell(script_of(path), path.stem)
    ran = len([line for line in told if line != "end"])
    if code == 0 and ran == len(todo):
        return ran, ""
    # The last command that began has failed.
    log = (reader.folder / f"{path.stem}.log").read_text(errors="replace")
    where = next((one for one in todo if str(one.line) == (told or ["0"])[-1]), todo[0])
    failed = f"{where.page}:{where.line}: `{where.text}` ended with {code}:\n{log[-2500:]}"
    return max(ran - 1, 0), failed


def run(chosen: list[Path]) -> tuple[int, list[str]]:
    """Run pages; return how many commands ran, and what failed."""
    ran = 0
    failures: list[str] = []
    with tempfile.TemporaryDirectory(prefix="docs-") as folder:
        reader = Reader.make(Path(folder))
        try:
            changed = True
            for path in chosen:
                texts = [each.text for each in commands(path) if not each.mark]
                if changed and path.parent.name == "how-to" and texts:
                    reader.shell("make up", "up")
                done, failed = run_page(reader, path)
                ran += done
                failures += [failed] if failed else []
                print(f"{path.relative_to(ROOT)}: {done} of {len(texts)} commands ran", flush=True)
                reader.reset()
                changed = (changed and not texts) or bool(CHANGING.search("\n".join(texts)))
        finally:
            reader.stop()
    return ran, failures


def listed_settings() -> tuple[int, int]:
    """Return how many settings the page of settings lists, and how many there are."""
    place = ""
    listed: set[str] = set()
    for line in (ROOT / "docs" / "reference" / "settings.md").read_text("utf-8").splitlines():
        if heading := re.fullmatch(r"## (?:Top level|`(.+)`)", line):
            place = heading[1] or ""
        elif row := re.match(r"\| `([^`]+)` \|", line):
            listed.add(f"{place}.{row[1]}" if place else row[1])
    wanted = reference.settings()
    return len(wanted & listed), len(wanted)


def listed_errors() -> tuple[int, int]:
    """Return how many error texts the page of error texts lists, and how many there are."""
    page = error_texts.PAGE.read_text(encoding="utf-8")
    texts = error_texts.errors()
    found = [name for name in error_texts.anchors(texts) if f'<a id="{name}"></a>' in page]
    return len(found), len(texts)


def problems(failures: list[str]) -> Iterator[str]:
    """Yield what failed, and what is old or missing in the pages.

    Args:
        failures: What failed of the commands.
    """
    yield from failures
    if json.loads(pictures.SOURCES.read_text()) != pictures.digests():
        yield "docs/images: older than what they show; run `make pictures`"
    for path in pages():
        yield from (f"{path.relative_to(ROOT)}: dead link {link}" for link in dead_links(path))
    for path in translations():
        yield from differences(path)


def main() -> None:
    """Run the pages that ONLY names, or all; print the numbers; exit with 1 if something failed."""
    only = os.environ.get("ONLY", "")
    chosen = [path for path in manuals() if not only or path.stem in only.split(",")]
    if not chosen:
        sys.exit(f"ONLY={only}: no page has this name")
    found = [command for path in chosen for command in commands(path)]
    marked = len([command for command in found if command.mark])
    ran, failures = run(chosen)
    wrong = list(problems(failures))
    (settings, of_settings), (errors, of_errors) = listed_settings(), listed_errors()
    dead = sum(len(dead_links(path)) for path in pages())
    print("\n".join(wrong))
    print(
        f"docs: {len(found)} commands, {ran} ran, {marked} marked, "
        f"{settings} of {of_settings} settings, {errors} of {of_errors} error texts, "
        f"{dead} dead links"
    )
    whole = ran + marked == len(found) and settings == of_settings and errors == of_errors
    sys.exit(0 if whole and not wrong else 1)


if __name__ == "__main__":
    main()
