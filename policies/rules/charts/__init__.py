"""Helm releases of the GPU stack."""
