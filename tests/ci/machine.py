"""Programs of a minimal machine as README.md requires it: Python, git, make, shell tools."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

# Programs that README.md lists as requirements.
ASKED = ("git", "make")

# Programs of Debian's essential packages and of procps that shell scripts use.
SHELL_TOOLS = """
[ awk base64 basename bash cat chgrp chmod chown chroot cksum clear cmp comm cp cut dash date dd
df diff dir dirname dmesg du echo egrep env expand expr false fgrep find findmnt flock fold free
getconf getent getopt grep groups gunzip gzip head hostname id install join kill ldconfig ldd
link ln locale logger ls lsns mawk md5sum mkdir mkfifo mknod mktemp more mount mountpoint mv
nice nl nohup nproc nsenter od paste pgrep pidof pivot_root pkill printenv printf prlimit ps pwd
readlink realpath rev rm rmdir sed seq setpriv setsid sh sha1sum sha256sum sha512sum shred sleep
sort split stat stdbuf stty su sync sysctl tac tail tar tee test timeout top touch tr true
truncate tsort tty umount uname unlink unshare uniq uptime users watch wc which whoami xargs yes
zcat
"""


def link_programs(folder: Path) -> None:
    """Create a folder with links to the programs of a minimal machine, for use as ``PATH``.

    Programs that this machine doesn't have are skipped.
    """
    folder.mkdir()
    for name in (*ASKED, *SHELL_TOOLS.split()):
        if program := shutil.which(name):
            (folder / name).symlink_to(program)
    # Don't link Python: with a symbolic link, it would look for its library next to the link.
    python = folder / "python3"
    python.write_text(f'#!/bin/sh\nexec "{Path(sys.executable).resolve()}" "$@"\n')
    python.chmod(0o755)
