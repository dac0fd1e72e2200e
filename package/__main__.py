"""Entry point that the Pulumi engine runs to start the plugin of the component package."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(1, str(Path(__file__).resolve().parents[1] / "toolchain" / "plugins"))

import local_caller

from components.package.serving import serve

serve(Path(__file__).resolve().parents[1], sys.argv[1:], local_caller.refusal)
