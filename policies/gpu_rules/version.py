"""Version of the packages of this project."""

VERSION = "0.1.0"
"""Version of the packages, which are released together."""
