"""Facts of vendors with dates and sources: generated tables, and the ends of support."""
