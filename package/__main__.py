"""Entry point that the Pulumi engine runs to start the plugin of the component package."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "toolchain" / "plugins"))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "policies"))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "components"))

import local_caller

from gpu_cluster.package.serving import serve

serve(Path(__file__).resolve().parents[1], sys.argv[1:], local_caller.refusal)
