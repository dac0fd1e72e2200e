"""Causes why a pod does not run, from its status, its events and the cluster around it."""
