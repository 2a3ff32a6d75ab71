"""What the tests expect of the defense weight_decay."""

EXAMPLE = {"value": 1e-3}

WRONG = [{"value": 0}]

TRAVEL = {"value": ({"value": 0.001}, 0.5)}

CHANGES_RECIPE = True
