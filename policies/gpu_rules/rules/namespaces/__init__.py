"""Rules for namespaces, their quotas and their limit ranges."""
