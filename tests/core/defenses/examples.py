"""What the tests expect of each defense of the table: a class for each, found by its name.

EXAMPLE: valid parameters, with which it can be tried: those it needs, one value each. WRONG: parameters that are
refused. TRAVEL: each of its fields -> the parameters beside it, and another value, with which a tiny training has other
numbers. What is not the rule, where it is not: FACTS: what its epochs record; PASSES: images of a forward pass, in
batches; NOT_ON: small architectures that it refuses; CHANGES_RECIPE; NEEDED, ALPHA: parameters, and the smoothing, that
all of TRAVEL is tried with; IN_A_FILE: another example, as a sweep file has it; COUNTED: parameters under which
training images are counted otherwise; UNSMOOTHED: parameters under which its own losses are not smoothed; ON_RANKS:
parameters with which two ranks train; MORE: as TRAVEL, values beyond it whose numbers are kept.
"""

from smoothsweep.core.defenses.registry import DEFENSES


def example(name):
    """The class of a defense's expectations. Fails with what to write where there is none."""
    found = globals().get(name)
    assert isinstance(found, type), f"write class {name} in tests/core/defenses/examples.py (see its head)"
    return found


def told(name, what, usual):
    """What the file of a defense says of `what`, or `usual`."""
    return getattr(example(name), what, usual)


class at_at:
    EXAMPLE = {}
    WRONG = [{"weight": 0}, {"eps": 0}, {"step": -1e-4}, {"steps": 0}]
    FACTS = {"towards_loss", "towards_acc"}
    TRAVEL = {"weight": ({}, 1.0), "eps": ({}, 0.1), "step": ({}, 0.01), "steps": ({}, 1)}
    PASSES = 2  # the altered images are in the same batch


class bido:
    EXAMPLE = {"lambda_input": 0.05, "lambda_label": 0.5}
    WRONG = [
        {"lambda_input": -1, "lambda_label": 1},
        {"lambda_input": 1, "lambda_label": 1, "measure": "mmd"},
        {"lambda_input": 1, "lambda_label": 1, "coco_norm": "spectral"},
        {"lambda_input": 1, "lambda_label": 1, "measure": "coco", "coco_norm": "nuclear"},
        {"lambda_input": 1, "lambda_label": 1, "label_kernel": "cosine"},
        {"lambda_input": 1, "lambda_label": 1, "batches": "sorted"},
        {"lambda_input": 1, "lambda_label": 1, "batches": "random", "images_per_class": 4},
        {"lambda_input": 1, "lambda_label": 1, "images_per_class": 1},
        {"lambda_input": 1, "lambda_label": 1, "layers": []},
        {"lambda_input": 1, "lambda_label": 1, "layers": ["stem", "stem"]},
    ]
    IN_A_FILE = {"lambda_input": 0.05, "lambda_label": 0.5, "layers": ["blocks.0"]}
    FACTS = {"input_dependence", "label_dependence", "distinct_labels"}
    TRAVEL = {
        "lambda_input": ({}, 5.0),
        "lambda_label": ({}, 5.0),
        "measure": ({}, "coco"),
        "coco_norm": ({"measure": "coco"}, "spectral"),
        "layers": ({}, ["stem"]),
        "label_kernel": ({}, "gaussian"),
        "batches": ({}, "random"),
        "images_per_class": ({}, 2),
    }
    NEEDED = {"lambda_input": 0.5, "lambda_label": 0.5}
    COUNTED = [{"batches": "random"}]
    ON_RANKS = {"batches": "random"}


class confidence_penalty:
    EXAMPLE = {"beta": 0.1}
    WRONG = [{"beta": 0}]
    FACTS = {"entropy"}
    TRAVEL = {"beta": ({"beta": 0.1}, 1.0)}


class dp_sgd:
    EXAMPLE = {"noise": 0.5}
    WRONG = [{"noise": 0}, {"noise": -1}, {"noise": 1, "clip": 0}, {"noise": float("inf")}]
    FACTS = {"clipped"}
    TRAVEL = {"noise": ({"noise": 0.5}, 1.0), "clip": ({"noise": 0.5}, 0.1)}


class dropout:
    EXAMPLE = {"p": 0.3}
    WRONG = [{"p": 0}, {"p": 1}, {"p": "half"}]
    TRAVEL = {"p": ({"p": 0.1}, 0.9)}


class focal:
    EXAMPLE = {"gamma": 2.0}
    WRONG = [{"gamma": 0}, {"gamma": float("inf")}]
    TRAVEL = {"gamma": ({"gamma": 1.0}, 3.0)}


class freeze:
    EXAMPLE = {"stages": 1}
    WRONG = [{}, {"stages": 0}, {"stages": 1, "fraction": 0.5}, {"fraction": 1.0}, {"layers": []}, {"stages": True}]
    TRAVEL = {
        "stages": ({"stages": 1}, 2),
        "fraction": ({"fraction": 0.01}, 0.3),
        "layers": ({"layers": ["stem"]}, ["stem", "blocks.0"]),
    }


class label_smoothing:
    EXAMPLE = {}
    WRONG = []
    TRAVEL = {}


class loft:
    EXAMPLE = {"rank": 5}
    WRONG = [{"rank": 0}, {"rank": 2.5}, {"rank": 5, "norm": "batch"}]
    TRAVEL = {"rank": ({"rank": 4}, 3), "norm": ({"rank": 4}, False)}


class logit_clipping:
    EXAMPLE = {"norm": 1.0}
    WRONG = [{"norm": 0}, {"norm": "long"}]
    TRAVEL = {"norm": ({"norm": 1.0}, 0.1)}


class mid:
    EXAMPLE = {"beta": 0.005}
    WRONG = [{"beta": -1}, {"beta": float("nan")}, {"beta": 0.1, "k": 0}, {"beta": 0.1, "beta_warmup": 1.5}]
    FACTS = {"kl", "sigma_mean", "beta"}
    TRAVEL = {"beta": ({"beta": 0.1}, 1.0), "k": ({"beta": 0.1}, 16), "beta_warmup": ({"beta": 1.0}, 1.0)}
    COUNTED = [{"k": 1}]


class mixup:
    EXAMPLE = {"alpha": 0.4}
    WRONG = [{"alpha": 0}]
    TRAVEL = {"alpha": ({"alpha": 0.2}, 2.0)}


class random_erasing:
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
    MORE = {"fill": ({}, "random")}


class skip_removal:
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


class ssd:
    EXAMPLE = {"eps": 0.5}
    WRONG = [{"eps": 0}, {"eps": 1, "temperature": 0}, {"eps": 1, "share": 1.0}, {"eps": 1, "draws": "never"}]
    TRAVEL = {
        "eps": ({"eps": 0.001}, 0.2),
        "temperature": ({"eps": 1.0}, 0.01),
        "share": ({"eps": 1.0}, 0.5),
        "draws": ({"eps": 1.0}, "fresh"),
    }
    COUNTED = [{"share": 0.9}]


class trap_mid:
    EXAMPLE = {}
    WRONG = [{"blend": 0}, {"blend": 1}, {"weight": 0}, {"weight": 1}, {"step": 0}, {"smooth_traps": "both"}]
    FACTS = {"trap_loss", "trap_acc", "told_apart"}
    TRAVEL = {"blend": ({}, 0.5), "weight": ({}, 0.5), "step": ({}, 0.5), "smooth_traps": ({}, False)}
    ALPHA = -0.5
    COUNTED = [{"smooth_traps": False}]
    UNSMOOTHED = {"smooth_traps": False}
    PASSES = 2  # the altered images are in the same batch


class weight_decay:
    EXAMPLE = {"value": 1e-3}
    WRONG = [{"value": 0}]
    TRAVEL = {"value": ({"value": 0.001}, 0.5)}
    CHANGES_RECIPE = True


EXAMPLES = {name: example(name).EXAMPLE for name in DEFENSES}
"""Parameters with which every defense can be tried: those it needs, one value each."""
