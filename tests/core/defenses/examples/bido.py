"""What the tests expect of the defense bido."""

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
