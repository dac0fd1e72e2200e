"""Inspection of hosts and cluster before resources are declared."""
