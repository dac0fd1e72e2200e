"""What stands behind `make`: one module per command."""
