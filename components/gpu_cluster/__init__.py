"""Pulumi components, one folder per feature; pure functions build Helm values and host scripts."""
