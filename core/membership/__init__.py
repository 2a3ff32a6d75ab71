"""Membership inference: was this image among those that the target was trained on?"""
