"""What the tests expect of the defense dp_sgd."""

EXAMPLE = {"noise": 0.5}

WRONG = [{"noise": 0}, {"noise": -1}, {"noise": 1, "clip": 0}, {"noise": float("inf")}]

FACTS = {"clipped"}

TRAVEL = {"noise": ({"noise": 0.5}, 1.0), "clip": ({"noise": 0.5}, 0.1)}
