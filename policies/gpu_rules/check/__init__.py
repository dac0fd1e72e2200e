"""The command-line checker, which applies the GPU rules to manifest files."""
