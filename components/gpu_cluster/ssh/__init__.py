"""SSH connections to hosts, with checked host keys and limited output."""
