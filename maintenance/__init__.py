"""Tools of maintainers: tables of facts, schemas, roles, releases, the site, audits."""
