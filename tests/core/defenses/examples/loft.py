"""What the tests expect of the defense loft."""

EXAMPLE = {"rank": 5}

WRONG = [{"rank": 0}, {"rank": 2.5}, {"rank": 5, "norm": "batch"}]

TRAVEL = {"rank": ({"rank": 4}, 3), "norm": ({"rank": 4}, False)}
