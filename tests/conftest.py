"""Settings of all tests."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

# How fast examples come depends on what else the machine does.
settings.register_profile("any", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any")
