"""What has to be the same where recipes of two sweeps are compared; a bundle brings it along."""
