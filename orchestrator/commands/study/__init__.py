"""`smoothsweep study`: a page for annotators, and what their answers show."""
