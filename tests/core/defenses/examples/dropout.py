"""What the tests expect of the defense dropout."""

EXAMPLE = {"p": 0.3}

WRONG = [{"p": 0}, {"p": 1}, {"p": "half"}]

TRAVEL = {"p": ({"p": 0.1}, 0.9)}
