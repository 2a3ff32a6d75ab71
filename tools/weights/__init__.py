"""Makers of the weights that are shipped: what each was trained with stands in the README beside its file."""
