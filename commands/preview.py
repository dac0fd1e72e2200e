"""`make preview`: what `make up` would change, judged by the policy pack.

Starts, stops and changes nothing: neither the cluster nor a host.
"""

from __future__ import annotations

from commands.contexts import require_context
from commands.engine import POLICIES, select, stale
from commands.failure import stop
from commands.stack import Stack
from commands.watched import Answer, Failed, answering, watched


def run(stack: Stack, answer: Answer) -> None:
    """Runs the command on a stack."""
    require_context(stack)
    stack.require_running()
    stack.note_absent_machines()
    selected = select(stack)
    try:
        result = watched(
            selected.preview,
            answer,
            preview=True,
            policy_packs=[POLICIES],
            refresh=stale(selected, stack),
        )
    except Failed as error:
        stop(f"preview: failed: {error}")
    changes = {str(kind): count for kind, count in result.change_summary.items()}
    answer["changes"] = changes
    print("preview: " + (", ".join(f"{n} {kind}" for kind, n in changes.items()) or "no change"))


def main() -> None:
    """Runs the command; exit code 1 when the preview fails or a mandatory rule is broken."""
    stack = Stack.current()
    with answering("preview") as answer, stack.unsalted():
        run(stack, answer)


if __name__ == "__main__":
    main()
