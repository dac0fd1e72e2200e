"""The rule reference in docs/rules, one page per rule, written from the rules themselves.

`python -m policies.reference` writes the pages; a test holds the two equal.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from policies.rules import RULES, Context, Need, Pool, Rule, Taint

EXAMPLES = Path(__file__).parent / "rules" / "examples"
PAGES = Path(__file__).parent.parent / "docs" / "rules"
_PLATFORM = "# platform: "


class Example(NamedTuple):
    """Two manifests as YAML text and the platform that they are judged for, if one matters."""

    passing: str
    failing: str
    platform: str | None

    @property
    def context(self) -> Context:
        """One pool of 8 GPUs per node with the taint that the stack sets by default."""
        taint = Taint("nvidia.com/gpu", "present")
        return Context(pools=(Pool("a100", 8, (taint,)),), platform=self.platform)


def example(rule: Rule) -> Example:
    """The passing and the failing manifest of a rule."""
    passing, failing = (EXAMPLES / f"{rule.id}.yaml").read_text().split("---\n")
    platform = None
    if passing.startswith(_PLATFORM):
        first, _, passing = passing.partition("\n")
        platform = first.removeprefix(_PLATFORM)
    return Example(passing, failing, platform)


def page(rule: Rule) -> str:
    """The page of a rule in Markdown."""
    shown = example(rule)
    needs = "the stack's pools" if Need.POOLS in rule.needs else "the manifest alone"
    patches = " Patches are not judged: what is missing in one may be there." if rule.whole else ""
    setting = f"`{shown.platform}`" if shown.platform else "any"
    return f"""# {rule.id}: {rule.title}

Severity: {rule.severity}. Judged by {needs}.{patches}

{rule.why}

Passes (platform: {setting}):

```yaml
{shown.passing.rstrip()}
```

Fails:

```yaml
{shown.failing.rstrip()}
```

Source: {rule.source}.
"""


def index() -> str:
    """The list of all rules in Markdown."""
    rows = "\n".join(
        f"| [{rule.id}]({rule.id}.md) | {rule.title} | {rule.severity} |" for rule in RULES.values()
    )
    return f"""# GPU rules

The same rules judge what a program declares at `pulumi preview` (policy pack `policies`) and
inside the program. `mandatory` stops the preview, `advisory` is printed. Each can be changed by
the pack's configuration: `{{"gpu-rules-mandatory": {{"rules": {{"GPU022": "mandatory"}}}}}}` in
a file given by `--policy-pack-config`. Values that are not known at preview are left out; the rest
is judged. Pages are written by `python -m policies.reference`.

| rule | title | severity |
| --- | --- | --- |
{rows}
"""


def pages() -> dict[str, str]:
    """Every page by its file name."""
    return {"README.md": index()} | {f"{rule.id}.md": page(rule) for rule in RULES.values()}


def main() -> None:
    """Write the pages."""
    PAGES.mkdir(parents=True, exist_ok=True)
    for name, text in pages().items():
        (PAGES / name).write_text(text)


if __name__ == "__main__":
    main()
