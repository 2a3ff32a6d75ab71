"""Weights of others, brought in: what may be said of a file, and its conversion."""
