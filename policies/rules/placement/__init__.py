"""Where pods go, and whether there is room."""
