"""Tests of the HTML report that `gpu-cluster report` writes."""
