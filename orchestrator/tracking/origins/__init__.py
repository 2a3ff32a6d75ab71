"""Where a run comes from: its data sets, its sweep file, the commit and the environment."""
