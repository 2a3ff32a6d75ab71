"""From the store to what a sweep leaves: its table, its page, its figures."""
