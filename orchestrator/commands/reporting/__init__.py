"""What a sweep leaves, made from the store: its table, its page, its figures."""
