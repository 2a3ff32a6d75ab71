"""What the tests expect of the stripes of `examples/plugin`."""

EXAMPLE = {"classes": 3, "train": 4, "test": 2, "size": 32}

WRONG = [
    ({"classes": 0}, "data.classes: expected a whole number of at least 1, got 0"),
    ({"seed": -1}, "data.seed: expected"),
    ({"sizes": 3}, "does not read 'sizes'"),
]

SWEPT = {"classes": 4, "train": 5, "test": 3, "size": 40, "seed": 3, "samples_per_class": 2}
