"""Platform `dra`: NVIDIA's driver for Dynamic Resource Allocation."""
