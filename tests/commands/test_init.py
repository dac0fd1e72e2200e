"""`gpu-cluster init` writes a complete repository of a site, and changes no existing file."""

from __future__ import annotations

import hashlib
import os
import pty
import re
import shlex
import subprocess
import sys
import termios
import zipfile
from pathlib import Path

import pytest
import yaml

from gpu_cluster.commands import init, packs
from gpu_cluster.commands.command_line import read
from gpu_cluster.commands.packs import RECORDER, RULES, place_pack
from gpu_cluster.loading.stack_file import load_stack_file
from gpu_cluster.machine.folders import cache_dir
from gpu_rules.command import VERSION
from gpu_rules.faults import FaultError

ROOT = Path(__file__).parents[2]
PINNED = re.compile(r"uses: ([\w./-]+)@(\S+ # v\S+)")
USED = re.compile(r"uses: (\S+)")
WORKFLOWS = ("check", "comment", "deploy", "preview", "status")
COMMAND = re.compile(r"(?:[`(]|bin/|run: |- | {2})gpu-cluster ((?!VERB)[a-z][^`;|&\n)]*)")
"""Words of a command line of `gpu-cluster`, in Markdown, YAML or a script."""
CONSTRAINTS = f"gpu-cluster=={VERSION} \\\n    --hash=sha256:{'0' * 64}\n"


@pytest.fixture
def constraints(tmp_path: Path) -> str:
    file = tmp_path / "constraints.txt"
    file.write_text(CONSTRAINTS)
    return str(file)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return an empty folder, which is the current one."""
    folder = tmp_path / "site"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


def files_of(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): path.read_text()
        for path in folder.rglob("*")
        if path.is_file()
    }


def talk(options: tuple[str, ...], *answers: str, folder: Path | None = None) -> list[str]:
    """Run `init` at a terminal in a folder, by default the current one; return its questions."""
    main, other = pty.openpty()
    modes = termios.tcgetattr(other)
    modes[3] &= ~termios.ECHO
    termios.tcsetattr(other, termios.TCSANOW, modes)
    os.write(main, "".join(f"{answer}\n" for answer in answers).encode())
    done = subprocess.run(
        [sys.executable, "-m", "gpu_cluster.commands", "init", *options],
        cwd=folder,
        stdin=other,
        stdout=other,
        stderr=other,
        timeout=120,
        check=False,
    )
    shown = os.read(main, 10_000).decode()
    assert done.returncode == 0, shown
    os.close(main)
    os.close(other)
    return [question for question in shown.partition("init: ")[0].split(": ") if question]


@pytest.mark.promise("`gpu-cluster init` writes the repository of a site, for GitHub or GitLab.")
@pytest.mark.parametrize("forge", init.FORGES)
def test_a_site_has_all_files_without_a_placeholder(
    forge: str, folder: Path, constraints: str
) -> None:
    init.main(forge=forge, stacks="prod, lab", owners="@org/gpu", constraints=constraints)
    files = files_of(folder)
    of_forge = {
        "github": {
            ".github/CODEOWNERS",
            ".github/scripts/merged_settings.sh",
            *(f".github/workflows/{name}.yml" for name in WORKFLOWS),
        },
        "gitlab": {
            "CODEOWNERS",
            ".gitlab-ci.yml",
            ".gitlab/scripts/fork_previews.sh",
            ".gitlab/scripts/merged_settings.sh",
        },
    }
    assert files.keys() == {
        "Pulumi.yaml",
        "__main__.py",
        "requirements.txt",
        *(f"Pulumi.{stack}.yaml" for stack in ("dev", "prod", "lab")),
        ".gpu-rules.yaml",
        ".pre-commit-config.yaml",
        "renovate.json",
        "README.md",
        ".gitignore",
        *of_forge[forge],
    }
    assert [name for name, text in files.items() if re.search("@[A-Z_]+@", text)] == []
    assert files["requirements.txt"] == CONSTRAINTS
    assert len(files["__main__.py"].splitlines()) <= 15
    for name, text in files.items():
        if name.endswith((".yml", ".yaml")):
            assert yaml.safe_load(text), name
    for stack, context in (("dev", "gpu-cluster-dev"), ("prod", "prod"), ("lab", "lab")):
        assert load_stack_file(folder / f"Pulumi.{stack}.yaml").kubernetes.context == context


def test_a_person_at_a_terminal_is_asked_for_what_no_option_says(
    folder: Path, constraints: str
) -> None:
    """The terminal is a real one (pty(7))."""
    asked = talk(("--constraints", constraints), "gitlab", "prod", "@org/gpu")
    assert [question.partition(" (")[0] for question in asked] == [
        "github or gitlab",
        "names of the stacks of real clusters, with commas",
        "who must review changes, such as @org/gpu",
    ]
    files = files_of(folder)
    assert "@org/gpu" in files["CODEOWNERS"]
    assert {".gitlab-ci.yml", "Pulumi.prod.yaml"} <= files.keys()
    others = folder.with_name("others")
    others.mkdir()
    options = (
        "--forge",
        "github",
        "--stacks",
        "lab",
        "--owners",
        "@a",
        "--constraints",
        constraints,
    )
    assert talk(options, folder=others) == []
    assert "Pulumi.lab.yaml" in files_of(others)


@pytest.mark.parametrize("forge", init.FORGES)
def test_each_command_in_the_files_of_a_site_is_read(
    forge: str, folder: Path, constraints: str
) -> None:
    init.main(forge=forge, stacks="prod", constraints=constraints)
    named = [found for text in files_of(folder).values() for found in COMMAND.findall(text)]
    assert {"preview", "up", "status", "comment"} <= {words.split()[0] for words in named}
    for words in named:
        read(shlex.split(words))


def test_each_action_of_a_site_has_the_pin_that_this_repository_has(
    folder: Path, constraints: str
) -> None:
    ours = {
        match[1]: match[2]
        for file in (ROOT / ".github" / "workflows").glob("*.yml")
        for match in PINNED.finditer(file.read_text())
    }
    init.main(forge="github", constraints=constraints)
    texts = [file.read_text() for file in (folder / ".github" / "workflows").glob("*.yml")]
    assert len(texts) == len(WORKFLOWS)
    for text in texts:
        pinned = dict(match.groups() for match in PINNED.finditer(text))
        assert pinned.items() <= ours.items()
        used = {name for name in USED.findall(text) if not name.startswith("./")}
        assert {name.partition("@")[0] for name in used} == pinned.keys()


@pytest.mark.parametrize("forge", init.FORGES)
def test_the_scripts_of_a_site_are_those_whose_behavior_is_tested_here(forge: str) -> None:
    files = init.site_files(forge, init.values_of((), ""))
    scripts = [name for name in files if name.endswith(".sh")]
    assert scripts
    for name in scripts:
        assert files[name] == (ROOT / name).read_text(), name
        if name.endswith("merged_settings.sh"):
            assert files[name] == (ROOT / ".github/scripts/merged_settings.sh").read_text()


def test_no_existing_file_is_changed(folder: Path, constraints: str) -> None:
    (folder / "renovate.json").write_text("{}")
    with pytest.raises(FaultError, match=r"found renovate\.json"):
        init.main(constraints=constraints)
    assert files_of(folder) == {"renovate.json": "{}"}


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"stacks": "prod,../x"}, "names of stacks"),
        ({"owners": "@org\n* @other"}, "names such as @org/gpu"),
        ({"forge": "gitea"}, "one of github, gitlab"),
    ],
)
def test_bad_options_are_refused_before_a_file_is_written(
    options: dict[str, str], text: str, folder: Path, constraints: str
) -> None:
    with pytest.raises(FaultError, match=text):
        init.main(**options, constraints=constraints)
    assert files_of(folder) == {}


def test_constraints_of_another_release_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "constraints.txt"
    file.write_text(CONSTRAINTS.replace(VERSION, "9.9.9"))
    with pytest.raises(FaultError, match=f"the constraints file of release {VERSION}"):
        init.requirements(file)


def wheel(folder: Path, name: str, *needs: str) -> str:
    """Write a wheel without modules; return the line and hash that requirements have for it."""
    info = f"{name.replace('-', '_')}-{VERSION}.dist-info"
    file = folder / f"{name.replace('-', '_')}-{VERSION}-py3-none-any.whl"
    needed = "".join(f"Requires-Dist: {need}=={VERSION}\n" for need in needs)
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr(
            f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {VERSION}\n{needed}"
        )
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", "")
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    return f"{name}=={VERSION} \\\n    --hash=sha256:{digest}\n"


def test_without_constraints_the_requirements_are_those_of_pips_index(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With their dependencies and hashes, as `pip install --require-hashes` takes them."""
    house = tmp_path / "wheels"
    house.mkdir()
    for name, value in {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(house)}.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(FaultError, match=rf"gpu-cluster=={VERSION}.*cure: .*--constraints"):
        init.requirements(None)
    lines = [
        wheel(house, "gpu-cluster", "gpu-rules"),
        wheel(house, "gpu-cluster-lab", "gpu-cluster"),
        wheel(house, "gpu-rules"),
    ]
    text = init.requirements(None)
    assert text.startswith("# ")
    assert text.partition("\n")[2] == "".join(lines)
    file = tmp_path / "requirements.txt"
    file.write_text(text)
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--dry-run", "--ignore-installed"]
    subprocess.run([*pip, "--require-hashes", "-r", file], check=True, timeout=120)


@pytest.mark.parametrize("pack", [RULES, RECORDER], ids=lambda pack: pack.name)
def test_a_pack_runs_with_the_python_of_the_environment(
    pack: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert place_pack(pack) == str(pack)
    monkeypatch.setattr(packs.sys, "prefix", str(tmp_path / "venv"))
    monkeypatch.setenv("GPU_CLUSTER_CACHE", str(tmp_path / "cache"))
    made = Path(place_pack(pack))
    assert made.is_relative_to(cache_dir())
    settings = yaml.safe_load((made / "PulumiPolicy.yaml").read_text())
    assert settings["runtime"]["options"]["virtualenv"] == sys.prefix
    assert str(pack / "__main__.py") in (made / "__main__.py").read_text()
