"""Preparation, container runtime, reboots and cluster membership of hosts."""
