"""What the audit of one model found: numbers, sentences, and the same as data."""

MOST_SEEDS = 5
"""Most seeds of attacks and trainings in one audit."""
