"""The checker: the rules over manifests in files, for CI and for pre-commit."""
