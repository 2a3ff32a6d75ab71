"""What leaves the machine: exports for a paper, bundles for a colleague."""
