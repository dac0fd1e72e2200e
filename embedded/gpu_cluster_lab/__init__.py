"""Embedded cluster, and the toolchain that finds, downloads or builds what it runs."""
