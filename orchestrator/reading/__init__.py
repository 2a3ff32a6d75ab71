"""Audits of single models as their pages read them."""
