"""The desired state: everything that a stack declares, resolved once, in typed immutable objects.

`resolve` reads the whole stack file; the modules after it read only these objects.
"""
