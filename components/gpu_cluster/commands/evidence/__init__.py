"""Signed evidence of a validation: an in-toto statement in a DSSE envelope, checked offline."""
