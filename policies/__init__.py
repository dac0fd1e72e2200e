"""The GPU rules, and the Pulumi policy pack that enforces them."""
