"""What this machine can run, and whether a store is as it was written."""
