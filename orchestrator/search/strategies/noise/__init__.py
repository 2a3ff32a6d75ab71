"""The parts of strategy noise_aware."""
