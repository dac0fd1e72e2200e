"""Entry point of the policy pack, which reads this project's stacks."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from components.guardrails.stacks import context_of_document
from policies.pack import start

start(context_of_document)
