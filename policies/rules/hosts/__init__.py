"""Commands on hosts."""
