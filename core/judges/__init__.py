"""Who measures a leak, and the target itself: one judge, one file, and a row of `core.judges.table`."""
