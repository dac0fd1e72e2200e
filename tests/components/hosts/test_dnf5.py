"""Arguments that the host scripts pass to dnf, under the rules of dnf 5 (Fedora 41 and later).

The fake dnf rejects the arguments that dnf 5.4.6.0 of Debian sid rejected, and prints the same
output. The scripts' arguments were also run with the real dnf 5 and with dnf 4.14.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gpu_cluster.hosts.script import FOLDER
from tests.fixtures.programs import run_program

LIBRARY = (
    "base", "files", "effects", "package_manager", "transactions", "holds", "module_streams"
)  # fmt: skip
DNF = r"""#!/bin/sh
# Fake of dnf 5. Source: dnf5 5.4.6.0, dnf5-changes-from-dnf4(7) and its own messages.
command=
for word in "$@"; do
    case $word in
        --disableexcludes*) unknown=$word ;;
        --downloadonly | --allowerasing) [ -n "$command" ] || unknown=$word ;;
        -*) ;;
        *) command=${command:-$word} ;;
    esac
    case $command-${before-} in
        repoquery---qf) format=$word ;;
    esac
    before=$word
done
if [ -n "${unknown-}" ]; then
    echo "Unknown argument \"$unknown\" for command \"dnf5\"." >&2
    exit 2
fi
echo "$*" >>"$ASKED"
case $command in
    repoquery) for v in 1.34.4 1.34.9; do printf "$(printf '%s' "$format" |
        sed "s/%{name}/kubelet/; s/%{epoch}/0/; s/%{version}/$v/; s/%{release}/1.1/")"; done ;;
    module) ;; # No module: no line, and status 0.
esac
"""
LINES = """
mkdir -p "$scratch" "$state"
find_manager() { manager=dnf; }
find_manager
await_package_manager() { :; }
list_available kubelet
cat "$scratch/plain"
erasing=--allowerasing
transaction download kubelet=0:1.34.9-1.1 && echo downloaded
transaction install kubelet=0:1.34.9-1.1 && echo installed
has_module nvidia-driver || echo none
step=x
: >"$scratch/log"
refresh_all
remove_packages kubelet
"""


@pytest.mark.promise("Fedora's dnf 5 gets only words that it knows.")
def test_dnf_5_takes_the_words_of_each_transaction(tmp_path: Path) -> None:
    programs = tmp_path / "programs"
    programs.mkdir()
    (programs / "dnf").write_text(DNF)
    (programs / "dnf").chmod(0o755)
    (tmp_path / "run").mkdir()
    shell = "".join((FOLDER / f"library/{part}.sh").read_text() for part in LIBRARY)
    asked = tmp_path / "asked"
    done = run_program(
        ["sh", "-s"],
        env={
            "GPU_CLUSTER_ROOT": str(tmp_path),
            "PATH": f"{programs}:{os.environ['PATH']}",
            "ASKED": str(asked),
        },
        input=f"GC_PHASE=prepare GC_PACKAGE_LOCK_LIMIT=1\n{shell}{LINES}",
        timeout=60,
    )
    assert done.stderr == ""
    assert done.stdout.splitlines() == [
        "kubelet 1.34.9-1.1",
        "kubelet 1.34.4-1.1",
        "downloaded",
        "installed",
        "none",
        "- package kubelet",
    ]
    _, install = (line for line in asked.read_text().splitlines() if line.endswith("9-1.1"))
    assert install.endswith("install --allowerasing kubelet-0:1.34.9-1.1")
