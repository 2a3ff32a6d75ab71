"""Attacks that see a target's scores or labels alone."""
