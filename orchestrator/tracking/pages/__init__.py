"""What MLflow's pages show first: the answer in words, saved views, the link that leads there."""
