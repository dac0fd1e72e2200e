"""Reboots of hosts in waves."""
