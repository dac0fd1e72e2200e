"""What changes the cluster outside Pulumi's own resources.

Each module is a program that a ``command:local:Command`` runs on the engineer's machine through
``operations/run.sh``: JSON on standard input, JSON on standard output, a readable error and exit
code 1 when it can't do its work. The kubeconfig comes from the environment, the context from the
input, so that the state names no file of one machine.
"""
