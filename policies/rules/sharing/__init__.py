"""GPUs that several pods share."""
