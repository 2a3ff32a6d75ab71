"""Drawings by matplotlib: one accuracy-leak plot for all of its uses, strips, curves, the two-dimensional example."""
