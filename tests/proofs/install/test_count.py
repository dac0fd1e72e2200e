"""A whole run of `make test-install` names, and fails for, what it did not show."""

from gpu_cluster.commands.verbs import VERBS
from gpu_cluster.settings.platform import NAMES as PLATFORMS
from tests.proofs.install.conftest import DOCUMENT, MOVED, VERB, shortfalls


def test_a_verb_without_a_run_or_a_document_is_named() -> None:
    verbs = [verb.name for verb in VERBS]
    whole = {VERB: verbs, DOCUMENT: verbs, MOVED: [*PLATFORMS]}
    assert [*shortfalls(whole)] == []
    without = {name: [each for each in shown if each != "status"] for name, shown in whole.items()}
    assert [*shortfalls({**without, MOVED: ["dra", "dra"]})] == [
        "only their help: status",
        "no JSON document: status",
        f"stacks moved: 1 of {len(PLATFORMS)}",
    ]
