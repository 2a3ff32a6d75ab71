"""Networks that are distilled from a target's answers."""
