"""Take over a running cluster: what it has, who manages it, and the settings that keep it."""
