"""Pulumi component package: `GpuCluster` and smaller components, for programs in any language."""
