"""Foundations of all settings: field types, errors, names and YAML files."""
