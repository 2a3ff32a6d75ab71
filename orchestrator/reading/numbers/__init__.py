"""Statistics: from trials to cells, intervals and verdicts."""
