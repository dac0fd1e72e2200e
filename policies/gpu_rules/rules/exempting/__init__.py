"""Rules for exemptions from other rules."""
