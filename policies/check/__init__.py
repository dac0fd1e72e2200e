"""The command-line checker: applies the GPU rules to manifest files, for CI and pre-commit."""
