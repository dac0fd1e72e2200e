"""Pydantic models of the stack file: one module per section."""
