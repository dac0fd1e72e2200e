"""Programs behind the make targets: `python -m commands.<name>` runs the module of one target."""

import sys

if sys.argv[0] == "-m":
    # `python -m` sets `sys.argv[0]` to "-m" while it still locates the module to run (Python
    # documentation, "Command line and environment", option -m). The hook is installed this early so
    # that an interrupt or an error prints one line instead of a traceback, even while libraries are
    # being imported.
    from gpu_cluster.commands.failure import show

    sys.excepthook = show
