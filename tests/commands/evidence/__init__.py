"""Tests of the signed evidence of a validation."""
