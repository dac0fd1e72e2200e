"""The GPU rules: a command that checks manifests, a Pulumi policy pack and admission policies."""

VERSION = "0.1.0"
