"""Audit a model that is in memory, without store or cluster: the implementation behind `smoothsweep.library`."""
