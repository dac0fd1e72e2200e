"""Amounts and names of extended resources."""
