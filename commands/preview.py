"""`make preview`: what `make up` would change, judged by the policy pack; changes nothing."""

from __future__ import annotations

import sys

from pulumi import automation

from commands.engine import POLICIES, color, say, select, stale
from commands.stack import Stack


def run(stack: Stack) -> None:
    """Runs the command on a stack."""
    selected = select(stack)
    stack.start()
    try:
        result = selected.preview(
            on_output=say,
            on_error=say,
            color=color(),
            policy_packs=[POLICIES],
            diff=True,
            refresh=stale(selected, stack),
        )
    except automation.CommandError:
        print("preview: failed; the cause stands above")
        sys.exit(1)
    changes = {str(kind): count for kind, count in result.change_summary.items()}
    print("preview: " + (", ".join(f"{n} {kind}" for kind, n in changes.items()) or "no change"))


def main() -> None:
    """Runs the command; exit code 1 when the preview fails or a mandatory rule is broken."""
    stack = Stack.current()
    with stack.unsalted():
        run(stack)


if __name__ == "__main__":
    main()
