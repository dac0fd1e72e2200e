"""Rules for Helm releases of the GPU stack."""
