"""Tests that convert public Helm value files to stack files and compare the rendered objects."""
