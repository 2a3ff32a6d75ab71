"""What the tests expect of the defense logit_clipping."""

EXAMPLE = {"norm": 1.0}

WRONG = [{"norm": 0}, {"norm": "long"}]

TRAVEL = {"norm": ({"norm": 1.0}, 0.1)}
