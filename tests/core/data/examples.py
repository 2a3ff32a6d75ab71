"""What the tests expect of each kind of data of the table: a class for each, found by its name.

EXAMPLE: settings with which it makes a handful of images; of a kind with files, `path` among them (`$a/people` is a
folder). WRONG: settings that are refused, each a change to the example, and the sentence. SWEPT: another value for each
of its fields. files(folder), of a kind that reads some: writes them there, and gives their path.
"""


def example(name):
    """The class of a kind's expectations. Fails with what to write where there is none."""
    found = globals().get(name)
    assert isinstance(found, type), f"write class {name} in tests/core/data/examples.py (see its head)"
    return found


class stripes:
    EXAMPLE = {"classes": 3, "train": 4, "test": 2, "size": 32}
    WRONG = [
        ({"classes": 0}, "data.classes: expected a whole number of at least 1, got 0"),
        ({"seed": -1}, "data.seed: expected"),
        ({"sizes": 3}, "does not read 'sizes'"),
    ]
    SWEPT = {"classes": 4, "train": 5, "test": 3, "size": 40, "seed": 3, "samples_per_class": 2}
