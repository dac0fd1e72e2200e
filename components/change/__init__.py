"""The change document, which describes what a run would change, and texts made from it."""
