"""Logins that fail, first messages, and hand-overs: `make test-logins`."""
