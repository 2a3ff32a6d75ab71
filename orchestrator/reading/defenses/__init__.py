"""Recipes grouped by defense."""
