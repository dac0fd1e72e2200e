"""Exemptions from other rules."""
