"""Ours beside the paper's numbers."""
