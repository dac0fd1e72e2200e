"""Generated tables of facts from vendors, each with dates and sources."""
