"""Findings of a sweep in sentences, and the recipes that a decision is about."""
