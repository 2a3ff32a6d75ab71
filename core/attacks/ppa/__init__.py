"""Plug & Play: a pool of latents, descent from the best of them, selection over crops."""
