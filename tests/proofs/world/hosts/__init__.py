"""Tests of host scripts with real hosts' configuration files from public sources.

Each row of `situations/KIND.yaml` describes one situation of a host: a description (`name`), the
source, the host's files, and the verdict that the test expects. The verdict was written before the
test's first run, from the rules of the program that reads the files. `corrected` explains why a
verdict was changed later. `test_KIND.py` tests all rows of the file.
"""
