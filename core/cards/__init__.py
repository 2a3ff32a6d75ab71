"""Cards: a file beside weights that says what they are."""
