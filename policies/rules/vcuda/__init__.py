"""TKEStack's vcuda resources: parts of a GPU."""
