"""Pulumi components: one ComponentResource per file; pure functions compute values and scripts."""
