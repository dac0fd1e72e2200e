"""The GPU rules for Kubernetes workloads, and the tools that enforce them.

The tools are a Pulumi policy pack, a command-line checker and ValidatingAdmissionPolicies.
"""
