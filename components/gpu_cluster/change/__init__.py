"""The change document: effects of a Pulumi run on a stack; its texts for terminal and review."""
