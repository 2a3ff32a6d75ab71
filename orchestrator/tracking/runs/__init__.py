"""MLflow's runs of a sweep: their names, points and verdicts."""
