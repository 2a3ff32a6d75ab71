"""Interpretation of leaks: removed or hidden, the judge's errors, exposure, queries, membership."""
