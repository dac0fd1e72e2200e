"""Run `gpu-cluster`."""

from gpu_cluster.commands.command_line import run

run()
