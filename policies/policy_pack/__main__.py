"""Entry point of the policy pack with one policy for each GPU rule."""

import sys
from pathlib import Path

# The rules of this clone; a copy of this folder alone has them in its environment.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from gpu_rules.pack_by_rule import start

start()
