"""One module per make target; `python -m commands.<name>` runs it."""

import sys

if sys.argv[0] == "-m":
    # Python locates one of these modules to run it (Python documentation, "Command line", -m).
    # From here on no interrupt and no failure ends in a traceback, not even while libraries load.
    from commands.failure import show

    sys.excepthook = show
