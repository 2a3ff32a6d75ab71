"""What small changes of an image do to a classifier's answer (paper, Appendix C.8)."""
