"""Another value for each field of every attack's classes, from the file of its expectations."""

import json
from functools import partial

from tiny import tiny_sweep

from smoothsweep.core.attacks.registry import ATTACKS
from smoothsweep.sweeps.settings import set_dotted
from tests.core.attacks.examples import example
from tests.orchestrator.settings_cases import Cases


def _changed(changes):
    """The tiny sweep with these changes."""
    sweep = tiny_sweep()
    for key, value in changes.items():
        if key == "control":
            sweep |= {"grid": {"attack": [{"kind": "ppa", **sweep["attack"]}, dict(value)]}, "baseline": {}}
        else:
            set_dotted(sweep, key, json.loads(json.dumps(value)), where="case")  # no part is in two places
    return sweep


OF_ATTACKS: Cases = {
    name: (partial(_changed, changes), where, fields)
    for attack in ATTACKS
    for name, (changes, where, fields) in example(attack).SWEPT.items()
}
