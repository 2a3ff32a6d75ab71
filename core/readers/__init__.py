"""Files that come from outside, read within bounds: what is too large is refused before it is in memory."""
