"""The folder that the engine runs as the policy pack."""
