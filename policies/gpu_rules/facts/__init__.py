"""Generated tables of facts from vendors, such as security floors, each with dates and sources."""
