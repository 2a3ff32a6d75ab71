"""Comparison of a sweep's numbers with the paper's."""
