"""Models of hosts, SSH access, and the sections that prepare hosts."""
