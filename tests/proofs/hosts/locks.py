"""Program that holds dpkg's lock on a simulated host, like a running package manager."""

from __future__ import annotations

HOLD_THE_PACKAGE_LOCK = """
use Fcntl;
open(my $file, ">>", "/var/lib/dpkg/lock-frontend") or die;
my $lock = pack("s s l! l! i", F_WRLCK, 0, 0, 0, 0);
fcntl($file, F_SETLK, $lock) or die;
open(my $mark, ">", "/run/held") or die;
sleep 300;
"""
