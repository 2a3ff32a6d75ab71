"""What the audit of one model found: numbers, sentences, and the same as data."""
