"""A study with human annotators: the key, their answers, and the results."""
