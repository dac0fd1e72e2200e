"""Rollouts of disruptive host changes and MIG layouts in waves."""
