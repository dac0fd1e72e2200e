"""Run one of the project's own plugins by its name, as its launcher does."""

import runpy
import sys
from pathlib import Path

plugin = Path(__file__).with_name(sys.argv[1])
sys.argv[:2] = [str(plugin)]
# Each plugin removes its folder from the path before it runs a program.
sys.path.insert(0, str(plugin.parent))
runpy.run_path(str(plugin), run_name="__main__")
