"""The folder that the Pulumi engine runs as a policy pack."""
