"""What a sweep file may say, and what it means where it says nothing, as it stood when somebody last looked.

A default, a bound or a choice that moves changes what files mean that users have. Whoever means to runs this file with
SMOOTHSWEEP_KEEP_SCHEMA=1, which writes the new ones down: the change then shows in the diff.
"""

import json
import os
from pathlib import Path

import pytest

from smoothsweep.core.attacks.registry import ATTACKS
from smoothsweep.core.defenses.registry import DEFENSES
from smoothsweep.core.priors.kinds import PRIORS
from smoothsweep.sweeps.attacks import MODELS as OF_PRIORS
from smoothsweep.sweeps.attacks import schema_of as of_attack
from smoothsweep.sweeps.schema import InversionSweep, ToySweep
from smoothsweep.sweeps.training import schema_of as of_defense

KEPT = Path(__file__).with_name("kept_schema.json")
TOLD = {
    "default",
    "const",
    "enum",
    "required",
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "minLength",
    "minItems",
    "maxItems",
}
FAMILIES = {"attack": (ATTACKS, of_attack), "defense": (DEFENSES, of_defense), "prior": (PRIORS, OF_PRIORS.__getitem__)}


def told(node, at=""):
    """What a schema tells of its keys, by their paths: a failure names what moved."""
    found = {}
    for key, part in node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ():
        if key in TOLD and not (isinstance(part, dict) and "type" in part):  # a key of a sweep may be called so, too
            found[f"{at} {key}"] = part
        else:
            found |= told(part, at if key in ("properties", "$defs", "anyOf", "oneOf", "items") else f"{at}/{key}")
    return found


def without_new(now, kept):
    """What a schema tells now, without choices and parts that came to a family after it was kept."""
    if isinstance(now, list) and isinstance(kept, list) and all(isinstance(one, str) for one in [*now, *kept]):
        return [one for one in now if one in kept]
    if isinstance(now, dict) and isinstance(kept, dict):
        return {key: value for key, value in now.items() if key in kept or value is not None}
    return now


def schemas():
    models = {"inversion": InversionSweep, "toy": ToySweep}
    for family, (table, schema_of) in FAMILIES.items():
        models |= {f"{family} {kind}": schema_of(kind) for kind in table}
    return {name: told(model.model_json_schema()) for name, model in sorted(models.items())}


def as_text(tables):
    """JSON with a line for each value."""
    parts = [f"{json.dumps(name)}: {{\n{lines(table)}\n}}" for name, table in tables.items()]
    return "{\n" + ",\n".join(parts) + "\n}\n"


def lines(table):
    return ",\n".join(f" {json.dumps(key)}: {json.dumps(table[key], sort_keys=True)}" for key in sorted(table))


NOW = json.loads(json.dumps(schemas(), sort_keys=True))


def test_there_is_one_for_every_kind():
    if os.environ.get("SMOOTHSWEEP_KEEP_SCHEMA"):
        KEPT.write_text(as_text(NOW))
    assert set(json.loads(KEPT.read_text())) <= set(NOW)


@pytest.mark.parametrize("name", sorted(set(NOW) & set(json.loads(KEPT.read_text()))))
def test_defaults_bounds_and_choices_are_the_kept_ones(name):
    """What has come to them since is no change of what files mean."""
    kept = json.loads(KEPT.read_text())[name]
    now = {key: without_new(NOW[name].get(key), value) for key, value in kept.items()}
    assert now == kept, "SMOOTHSWEEP_KEEP_SCHEMA=1 keeps the new ones, if they are meant"
