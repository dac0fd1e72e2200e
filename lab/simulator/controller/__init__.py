"""Process that simulates device plugins, the GPU Operator and validation results of nodes."""
