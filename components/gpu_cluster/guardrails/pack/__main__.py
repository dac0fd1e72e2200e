"""Entry point of the policy pack, which reads this project's stacks."""

import sys
from pathlib import Path

# Without these lines the pack finds the packages in `make`'s environment only.
sys.path.insert(0, str(Path(__file__).resolve().parents[4] / "policies"))
sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from gpu_cluster.guardrails.stacks import context_of_document
from gpu_rules.pack import start

start(context_of_document)
