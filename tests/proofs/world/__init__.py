"""Tests of this project with configuration files and bug reports from public repositories."""
