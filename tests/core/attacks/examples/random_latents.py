"""What the tests expect of the control of random latents."""

from smoothsweep.core.attacks.random_latents import RandomLatents
from tests.core.attacks.examples import REFUSED, swept

EXAMPLE = {"selected": 4, "truncation_psi": 1.0, "truncation_cutoff": None}

DECLARED = {"": ({}, (), "prior", 1)}

WRONG = [({"readout": "mean"}, "attack.readout: expected none")]

STREAMS = {"random_latents.py": ["random latents"]}

KEPT = {"selected": 2, "truncation_psi": 1.0, "truncation_cutoff": None}

SWEPT = {
    "RandomLatents": (
        {"control": {"kind": "random_latents", "selected": 2}},
        "control",
        swept(RandomLatents, readout=REFUSED),
    )
}

QUERIES = 0
