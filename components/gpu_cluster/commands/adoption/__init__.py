"""Take over a running cluster: read it, find who manages its GPU software, propose settings."""
