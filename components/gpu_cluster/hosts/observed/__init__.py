"""Inspection of hosts: the probe, its parser, and the table of results."""
