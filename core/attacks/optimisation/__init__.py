"""Descent on latents: what every white-box attack of the family shares."""
