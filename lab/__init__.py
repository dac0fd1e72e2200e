"""Tools for tests and development: simulator, real components, benchmarks, structure checks."""
