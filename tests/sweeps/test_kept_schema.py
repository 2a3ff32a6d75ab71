"""What a sweep file may say, and what it means where it says nothing, as it stood when somebody last looked.

A default, a bound or a choice that moves changes what files mean that users have. Whoever means to runs this file with
SMOOTHSWEEP_KEEP_SCHEMA=1, which writes the new ones down: the change then shows in the diff.
"""

from __future__ import annotations

import json
import os
from dataclasses import fields
from pathlib import Path
from typing import Annotated, Any, get_args

import pytest
from pydantic import TypeAdapter

from smoothsweep.core.attacks.registry import ATTACKS, make_attack
from smoothsweep.core.defenses.registry import DEFENSES
from smoothsweep.core.priors.kinds import PRIORS
from smoothsweep.sweeps.base import Model
from smoothsweep.sweeps.parts import PRIOR_MODELS, attack_model
from smoothsweep.sweeps.schema import SWEEPS, InversionSweep, ToySweep
from smoothsweep.sweeps.training import defense_model

KEPT = Path(__file__).with_name("kept_schema.json")
TOLD = set(["default", "const", "enum", "required", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"])
TOLD |= {"minLength", "minItems", "maxItems"}
FAMILIES = {
    "attack": (ATTACKS, attack_model),
    "defense": (DEFENSES, defense_model),
    "prior": (PRIORS, PRIOR_MODELS.__getitem__),
}


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
    for family, (table, model_of) in FAMILIES.items():
        models |= {f"{family} {kind}": model_of(kind) for kind in table}
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


OF_A_KIND = {
    **{f"attack {kind}": (attack_model(kind), kind) for kind in ATTACKS},
    **{f"defense {kind}": (defense_model(kind), kind) for kind in DEFENSES},
    **{f"prior {kind}": (PRIOR_MODELS[kind], kind) for kind in PRIORS},
}


def models_in(annotation: Any) -> set[type[Model]]:
    """The models in an annotation, and those in their fields."""
    found = set().union(*map(models_in, get_args(annotation)))
    if isinstance(annotation, type) and issubclass(annotation, Model):
        found.add(annotation)
        for field in annotation.model_fields.values():
            found |= models_in(field.annotation).union(*map(models_in, field.metadata))
    return found


def test_every_default_is_a_value_that_its_key_takes():
    """Pydantic checks what a file says, not what it leaves out."""
    models = set().union(*map(models_in, SWEEPS.values()), (model for model, _ in OF_A_KIND.values()))
    models |= set().union(*map(models_in, [model for model, _ in OF_A_KIND.values()]))
    checked = 0
    for model in models:
        for name, info in model.model_fields.items():
            if not info.is_required():
                hint = Annotated[(info.annotation, *info.metadata)] if info.metadata else info.annotation
                value = info.get_default(call_default_factory=True)
                assert TypeAdapter(hint).validate_python(value) == value, (model, name)
                checked += 1
    assert checked > 100


@pytest.mark.parametrize("kind", ATTACKS)
def test_an_attack_as_its_file_has_it_is_the_one_that_core_declares(kind):
    read = attack_model(kind).model_validate({"kind": kind})
    assert read.built == make_attack(kind)
    assert all(getattr(read.built, one.name) == getattr(make_attack(kind), one.name) for one in fields(ATTACKS[kind]))
