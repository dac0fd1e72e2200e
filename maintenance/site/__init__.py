"""The documentation as a site, built by mkdocs from the pages of docs/."""
