"""What the tests expect of the defense label_smoothing."""

EXAMPLE = {}

WRONG = []

TRAVEL = {}
