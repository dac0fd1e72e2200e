"""What is deployed: one folder per feature, with its component; values and scripts from pure functions."""
