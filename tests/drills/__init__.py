"""Drills: a small sweep on a several-node cluster on one machine, disturbed, then finished by the same command."""
