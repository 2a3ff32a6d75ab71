"""RLB-MI and BREP-MI: attacks that see scores or labels alone."""
