"""The ground that every feature's settings stand on: field types, errors, names, files."""
