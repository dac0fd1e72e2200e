"""Situations of hosts from public repositories and reports, and what must come of each.

`situations/KIND.yaml` has one row a situation: source, what it is (`name`), the host's files, and
the verdict wanted. The verdict was written before the first run, from the meaning of the program
that reads the file. `corrected` says why a verdict was changed later. `test_KIND.py` has the test
of a kind.
"""
