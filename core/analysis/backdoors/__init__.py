"""Backdoors planted into a training set, and what they do to the classifier (paper, Appendix C.9)."""
