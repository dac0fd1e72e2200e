"""Each version that README and the pages claim, shown by what runs: `make test-versions`."""
