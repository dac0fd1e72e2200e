"""Facts of vendors with dates and sources: generated tables."""
