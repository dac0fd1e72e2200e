"""Driver installation with a DaemonSet, and checks for driver containers."""
