"""A member of each family of smoothsweep that takes them from outside."""
