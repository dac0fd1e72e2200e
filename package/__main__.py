"""Entry point that the Pulumi engine runs to start a clone's plugin of the component package."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "policies"))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "components"))

from gpu_cluster.package.serving import serve

serve(Path(__file__).resolve().parents[1] / "components", sys.argv[1:])
