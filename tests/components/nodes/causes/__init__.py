"""Tests of the causes why pods do not run."""
