"""Networks that are taught by a target's answers."""
