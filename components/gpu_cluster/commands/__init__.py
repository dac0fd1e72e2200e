"""The command `gpu-cluster`: a module for each verb, and modules that only verbs use."""
