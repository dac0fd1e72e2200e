"""The machine on which commands run: its folders, locks, processes and tools."""
