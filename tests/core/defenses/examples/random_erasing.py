"""What the tests expect of the defense random_erasing."""

EXAMPLE = {}

WRONG = [
    {"p": 0},
    {"area": [0.4, 0.1]},
    {"area": [0.0, 0.1]},
    {"area": [0.1, 1.1]},
    {"aspect": [0.0, 1.0]},
    {"fill": "black"},
    {"fill": "mean", "colour": [0, 0, 0]},
    {"colour": [0, 0]},
    {"colour": [0, 0, 2]},
]

IN_A_FILE = {"area": [0.1, 0.3], "colour": [0, 0, 0]}

TRAVEL = {
    "p": ({}, 0.5),
    "area": ({}, [0.5, 0.6]),
    "aspect": ({}, [2.0, 2.0]),
    "fill": ({}, "mean"),
    "colour": ({}, [1.0, -1.0, 0.0]),
}
