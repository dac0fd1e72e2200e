"""Tests of the HTML report that `make report` writes."""
