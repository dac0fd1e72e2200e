"""Clients of GitHub and GitLab that keep one comment per stack in a pull request."""
