"""Entry point: `pulumi-language-python [flags] <engine address>`."""

import importlib
import sys
from pathlib import Path

if __name__ == "__main__":
    # This folder is not left on the path: the user's program runs in this process.
    sys.path[0] = str(Path(__file__).resolve().parent.parent)
    serve = importlib.import_module("language_host.server")
    del sys.path[0]
    serve.main(sys.argv[1:])
