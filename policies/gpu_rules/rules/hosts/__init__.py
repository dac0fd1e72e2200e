"""Rules for commands on hosts."""
