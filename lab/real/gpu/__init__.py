"""Run this project's Pulumi program on the real GPUs of this machine."""
