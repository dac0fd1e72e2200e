"""Rules for GPUs that several pods share."""
