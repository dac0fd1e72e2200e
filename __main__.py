"""The Pulumi program: declare the cluster that the stack file describes."""

import sys
from pathlib import Path

# `pulumi install` makes an environment without this project's packages.
sys.path.insert(0, str(Path(__file__).parent / "policies"))
sys.path.insert(0, str(Path(__file__).parent / "components"))

from gpu_cluster.stack_program import declare_stack

# Declare resources of your own after it: the rules judge them, too.
declare_stack()
