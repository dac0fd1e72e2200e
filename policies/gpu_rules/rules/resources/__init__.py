"""Rules for amounts and names of GPU resources."""

VALIDATION = "kubernetes v1.34.4 pkg/apis/core/validation/validation.go"
"""Source of the rules that the API server enforces too."""
