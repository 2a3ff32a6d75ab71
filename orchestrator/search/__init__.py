"""The search: what is proposed next, what is known of it, and when enough is enough."""
