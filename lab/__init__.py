"""Test environments: simulator, real components, benchmarks, and code structure."""
