"""The component package: `GpuCluster` and its parts for Pulumi programs in any language."""
