"""Another value for each field of every prior's classes, from the file of its expectations."""

import json
from functools import partial

from smoothsweep.core.priors.kinds import PRIORS
from tests.core.priors.examples import example
from tests.orchestrator.settings_cases import TINY, Cases


def _changed(changes):
    """The tiny sweep with these changes, no part of which is in two places."""
    return TINY(**json.loads(json.dumps(changes)))


OF_PRIORS: Cases = {
    name: (partial(_changed, changes), where, fields)
    for kind in PRIORS
    for name, (changes, where, fields) in example(kind).SWEPT.items()
}
