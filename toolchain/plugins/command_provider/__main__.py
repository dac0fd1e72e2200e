"""Entry point: `pulumi-resource-command [flags] <engine address>`."""

import importlib
import sys
from pathlib import Path

if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).resolve().parent.parent)
    importlib.import_module("command_provider.server").main(sys.argv[1:])
