"""Curves: over the epochs, over the steps of an attack, over what is asked of the target, over the factor."""
