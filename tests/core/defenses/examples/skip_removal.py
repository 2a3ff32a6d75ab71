"""What the tests expect of the defense skip_removal."""

EXAMPLE = {}

WRONG = [
    {"scale": 1.0},
    {"scale": -0.1},
    {"skip": "celeba"},
    {"skip": [1.0, 1.0]},
    {"skip": [1.0, 1.5]},
    {"skip": []},
    {"skip": [1.0, 0.0], "scale": 0.5},
]

TRAVEL = {"scale": ({}, 0.5), "skip": ({}, [0.0, 1.0])}

NOT_ON = ("vgg_small",)
