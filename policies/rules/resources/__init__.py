"""Rules for amounts and names of GPU resources."""
