"""The command `gpu-cluster`: a module for each verb, and what only verbs need."""
