"""What the tests expect of the control of random latents."""

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


def queries(found):
    """What it asks the target of one class with EXAMPLE."""
    return 0
