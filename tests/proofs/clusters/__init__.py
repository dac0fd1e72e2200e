"""Summary line of `make test-clusters`, a proof about clusters that run already."""
