"""What the tests expect of the defense ssd."""

EXAMPLE = {"eps": 0.5}

WRONG = [{"eps": 0}, {"eps": 1, "temperature": 0}, {"eps": 1, "share": 1.0}, {"eps": 1, "draws": "never"}]

TRAVEL = {
    "eps": ({"eps": 0.001}, 0.2),
    "temperature": ({"eps": 1.0}, 0.01),
    "share": ({"eps": 1.0}, 0.5),
    "draws": ({"eps": 1.0}, "fresh"),
}

COUNTED = [{"share": 0.9}]
