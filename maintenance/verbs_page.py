"""Run `make verbs`: write the page of the verbs of `gpu-cluster` from their table."""

from __future__ import annotations

from collections.abc import Iterator

from gpu_cluster.commands.command_line import PROGRAM, options_of
from gpu_cluster.commands.files import ROOT
from gpu_cluster.commands.verbs import OUTPUT, SHARED, VERBS, Option, Verb

PAGE = ROOT / "docs" / "reference" / "verbs.md"
HEAD = f"""\
# Verbs of {PROGRAM}

`make verbs` writes this page from the table that the command line reads.
`{PROGRAM} VERB --help` prints the options of a verb. If a stack has no file, a verb ends with 1 and
names a stack with a similar name; [exit codes](exit-codes.md) lists all codes. In a clone,
`make VERB` runs the same verb: a variable in capital letters is the option of the same name
(`NODES=gpu-1` is `--nodes gpu-1`).

A line in the start-up file of your shell completes verbs, options and stacks:

| shell | line |
| --- | --- |
| bash | `source <({PROGRAM} completion bash)` |
| zsh | `eval "$({PROGRAM} completion zsh)"`, after `compinit` |
| fish | `{PROGRAM} completion fish \\| source` |
"""


def main() -> None:
    """Write the page."""
    PAGE.write_text(page(), encoding="utf-8")


def page() -> str:
    """Return the page."""
    return "\n".join(
        [HEAD, *_shared_options(), *(line for verb in VERBS for line in _verb_section(verb))]
    )


def _shared_options() -> Iterator[str]:
    yield "Verbs that work on a stack, or print data, also have these options:"
    yield ""
    yield from _options_table((*SHARED, OUTPUT))


def _verb_section(verb: Verb) -> Iterator[str]:
    yield f"## {verb.name}"
    yield ""
    yield f"{verb.text[0].upper()}{verb.text[1:]}."
    yield ""
    yield "```sh"
    yield from (f"{PROGRAM} {example}" for example in verb.examples)
    yield "```"
    yield ""
    if verb.options:
        yield from _options_table(verb.options)
    shared = [option for option in options_of(verb) if option not in verb.options]
    if shared:
        names = ", ".join(f"`--{option.name}`" for option in shared)
        yield f"Also: {names}."
        yield ""


def _options_table(options: tuple[Option, ...]) -> Iterator[str]:
    yield "| option | what it does |"
    yield "| --- | --- |"
    for option in options:
        name = option.value if option.is_position else f"--{option.name} {option.value}".strip()
        cell = name.replace("|", r"\|")
        yield f"| `{cell}` | {option.text} |"
    yield ""


if __name__ == "__main__":
    main()
