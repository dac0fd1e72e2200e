"""What is deployed: one folder per feature; values and scripts come from pure functions."""
