"""What the tests expect of the defense confidence_penalty."""

EXAMPLE = {"beta": 0.1}

WRONG = [{"beta": 0}]

FACTS = {"entropy"}

TRAVEL = {"beta": ({"beta": 0.1}, 1.0)}
