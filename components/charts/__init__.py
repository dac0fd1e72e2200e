"""Helm values, one module per chart: pure functions of the configuration."""
