"""Tests of `gpu-cluster why` with situations from public reports of GPU clusters.

Each row of `situations/*.yaml` describes one situation: its source, the objects as the cluster
shows them, the true cause (`truth`), and patterns for the cause (`says`), for the cure (`cure`),
and for what neither may contain (`never`). They were written before the first run of the test.
"""
