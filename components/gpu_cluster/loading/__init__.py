"""Loading of a stack file: defaults, overrides, models, and checks between sections."""
