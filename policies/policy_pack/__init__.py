"""The Pulumi policy pack with one policy for each GPU rule, for any project."""
