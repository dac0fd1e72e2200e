"""The desired state: everything that a stack declares, resolved once, in typed immutable objects.

Only `resolve` reads the whole stack file; later modules read the objects that it returns.
"""
