"""The Pulumi program: declare the cluster that the stack file describes."""

from gpu_cluster.stack_program import declare_stack

# Declare resources of your own after it: the rules judge them, too.
declare_stack()
