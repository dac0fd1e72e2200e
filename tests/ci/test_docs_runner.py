"""The proof that runs the documentation runs each command, and says where a page fails."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.proofs.docs.__main__ import Reader, listed_errors, listed_settings, run_page
from tests.proofs.docs.pages import ROOT
from tests.proofs.docs.settings import STACK_FILE

PAGE = """# A page

```sh
export WAVES=2
```

```yaml
rollout: {maxUnavailable: 2}
```

<!-- not run: would fail if it ran -->
```sh
exit 3
```

```sh
grep -q "maxUnavailable: $WAVES" Pulumi.dev.yaml
grep -q "platform: device-plugin" Pulumi.dev.yaml
cat > ~/file <<'END'
echo two lines
END
```
"""


@pytest.fixture
def reader(tmp_path: Path) -> Reader:
    made = Reader(tmp_path)
    for folder in (made.project, made.home, made.cache):
        folder.mkdir()
    (made.project / "venv").symlink_to(ROOT / "venv")
    shutil.copy(STACK_FILE, made.project)
    return made


def test_a_page_is_run_by_one_shell_with_its_settings(reader: Reader) -> None:
    page = reader.folder / "page.md"
    page.write_text(PAGE, encoding="utf-8")
    assert run_page(reader, page) == (4, "")
    assert (reader.home / "file").read_text() == "echo two lines\n"


def test_the_command_that_fails_is_named_with_its_line(reader: Reader) -> None:
    page = reader.folder / "page.md"
    page.write_text(PAGE.replace("grep -q", "false; grep -q", 1), encoding="utf-8")
    ran, failed = run_page(reader, page)
    assert ran == 1
    assert failed.startswith("page.md:17: `false; grep -q ")
    assert " ended with 1:\n" in failed


def test_the_reference_lists_all_settings_and_errors() -> None:
    for listed, there in (listed_settings(), listed_errors()):
        assert listed == there > 300
