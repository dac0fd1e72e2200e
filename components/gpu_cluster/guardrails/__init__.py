"""GPU rules in the cluster, and the policy pack and checker that read stacks."""
