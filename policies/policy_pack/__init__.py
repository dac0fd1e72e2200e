"""Policy pack that stands alone: a copy of this folder needs only the installed `gpu_rules`."""
