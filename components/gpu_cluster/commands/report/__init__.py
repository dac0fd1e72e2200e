"""HTML report on a stack: GPU states, pending changes, test results and software versions."""
