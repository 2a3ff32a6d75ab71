"""What the tests expect of the defense freeze."""

EXAMPLE = {"stages": 1}

WRONG = [{}, {"stages": 0}, {"stages": 1, "fraction": 0.5}, {"fraction": 1.0}, {"layers": []}, {"stages": True}]

TRAVEL = {
    "stages": ({"stages": 1}, 2),
    "fraction": ({"fraction": 0.01}, 0.3),
    "layers": ({"layers": ["stem"]}, ["stem", "blocks.0"]),
}
