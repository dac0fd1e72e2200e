"""The desired state: everything that a stack declares, resolved once, in typed frozen parts.

`resolve` reads the whole declaration; after it nothing asks for the whole again.
"""
