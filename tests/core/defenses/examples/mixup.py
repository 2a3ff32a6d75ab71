"""What the tests expect of the defense mixup."""

EXAMPLE = {"alpha": 0.4}

WRONG = [{"alpha": 0}]

TRAVEL = {"alpha": ({"alpha": 0.2}, 2.0)}
