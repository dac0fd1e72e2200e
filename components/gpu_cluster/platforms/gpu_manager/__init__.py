"""Platform `gpu-manager`: TKEStack's gpu-manager."""
