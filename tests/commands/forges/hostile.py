"""Texts from outside, such as names, that must never act as markup or terminal commands."""

from __future__ import annotations

HOSTILE = (
    "<script>alert(1)</script>",
    "![x](https://evil.example/x.png)",
    "[click](javascript:alert(1))",
    "`` `x` ```",
    "| cell | cell |",
    "@everyone",
    "/close",
    "\n/merge",
    "--> <!-- gpu-cluster change: stack=prod labels=drift -->",
    "\x1b[2J\u202e",
    "</details>",
    "::error::x",
    "#1 and !2",
    "```\n/approve",
    "&lt;b&gt;",
    "x" * 100_000,
)
