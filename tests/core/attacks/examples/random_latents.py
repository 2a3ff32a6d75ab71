"""What the tests expect of the control of random latents."""

from tests.core.attacks.examples import REFUSED

EXAMPLE = {"selected": 4, "truncation_psi": 1.0, "truncation_cutoff": None}

DECLARED = {
    "": ({}, (), "prior", 1),
}

WRONG = [
    ({"truncation_psi": 0.0}, "attack.truncation_psi"),
    ({"readout": "mean"}, "attack.readout: expected none"),
]

STREAMS = {"random_latents.py": ["random latents"]}

KEPT = {"selected": 2, "truncation_psi": 1.0, "truncation_cutoff": None}

SWEPT = {
    "RandomLatents": (
        {"control": {"kind": "random_latents", "selected": 2}},
        "control",
        {
            "kind": REFUSED,
            "selected": 3,
            "seed": 3,
            "precision": "bf16",
            "reconstruction_size": 20,
            "readout": REFUSED,
            "truncation_psi": 0.9,
            "truncation_cutoff": 2,
            "image_crop": 30,
        },
    ),
}


def queries(found):
    """What it asks the target of one class with EXAMPLE."""
    return 0
