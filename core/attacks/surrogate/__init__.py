"""Attacks on networks that learnt a target's answers, in the place of a target that shows no gradients."""
