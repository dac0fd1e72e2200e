"""Tests of each version that README and documentation claim to support: `make test-versions`."""
