"""Program of `make preview`: show what `make up` would change, checked by the policy pack.

It starts, stops and changes nothing, neither the cluster nor a host.
"""

from __future__ import annotations

from commands.contexts import require_context
from commands.engine import POLICIES, select, stale
from commands.failure import stop
from commands.lab import embedded_cluster
from commands.stack import Stack
from commands.watched import Answer, Failed, answering, watched


def run(stack: Stack, answer: Answer) -> None:
    """Preview the stack and print how many resources would change."""
    require_context(stack)
    if cluster := embedded_cluster(stack):
        cluster.require_running()
        cluster.note_absent_machines()
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
    """Run the preview; exit with 1 if it fails or if a mandatory rule is violated."""
    stack = Stack.current()
    with answering("preview") as answer, stack.unsalted():
        run(stack, answer)


if __name__ == "__main__":
    main()
