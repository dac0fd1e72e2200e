"""Rules for TKEStack's vcuda resources, which are parts of a GPU."""
