"""Controller of the embedded cluster: simulates device plugins, GPU Operator and validation."""
