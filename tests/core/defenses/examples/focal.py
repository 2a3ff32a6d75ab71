"""What the tests expect of the defense focal."""

EXAMPLE = {"gamma": 2.0}

WRONG = [{"gamma": 0}, {"gamma": float("inf")}]

TRAVEL = {"gamma": ({"gamma": 1.0}, 3.0)}
