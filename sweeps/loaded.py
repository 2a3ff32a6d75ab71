"""A checked sweep beside the settings it came from, and the one line for what is wrong in a file."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, get_args

from pydantic import BaseModel, ValidationError

from smoothsweep.core.checks import present
from smoothsweep.core.declared import first_mistake
from smoothsweep.core.errors import InputError
from smoothsweep.core.priors.kinds import PRIORS
from smoothsweep.core.text import quoted
from smoothsweep.sweeps.attacks import DEFAULT_KIND, AnyAttack, schema_of
from smoothsweep.sweeps.base import dotted_value, set_dotted
from smoothsweep.sweeps.data import DATA_KINDS
from smoothsweep.sweeps.schema import SWEEPS, InversionSweep, ToySweep
from smoothsweep.sweeps.search import Reaudit, Search, SeedLooks

TAGS = {*PRIORS, *DATA_KINDS, "trained_here", "brought_in", "a_number", "another_trial", "a_list", "of_looks"}
"""What pydantic calls the chosen variant of a union in the place of an error; it is no key of the file."""


def known_keys(schema: type[BaseModel], raw: Mapping[str, Any], location: Sequence[str | int]) -> set[str]:
    """The keys beside the one at `location` (pydantic's: names, numbers of list items, chosen kinds) of settings `raw`.

    Of parts that come in kinds those of the chosen kind, or of all where none is. Empty where nothing is known.
    """
    models, walked = [schema], []
    for part in location[:-1]:
        holders = [model for model in models if part in model.model_fields]
        if holders:
            walked.append(str(part))
            models = [choice for model in holders for choice in _models(model.model_fields[str(part)].annotation)]
            models = [_chosen(model, raw, walked) for model in models]
        else:  # the chosen kind, or the number of an item
            models = [model for model in models if _is_of_kind(model, part)] or models
    return {name for model in models for name in model.model_fields}


def _models(annotation: Any) -> Iterator[type[BaseModel]]:
    """The models that a type holds, in unions and lists too."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for inner in get_args(annotation):
        yield from _models(inner)


def _chosen(model: type[BaseModel], raw: Mapping[str, Any], walked: Sequence[str]) -> type[BaseModel]:
    """The model, for attacks that of the kind that the file names: each kind has keys of its own."""
    if model is not AnyAttack:
        return model
    kind_stated, _ = dotted_value(raw, ".".join(walked))
    return schema_of(kind_stated.get("kind", DEFAULT_KIND)) if isinstance(kind_stated, Mapping) else model


def _is_of_kind(model: type[BaseModel], kind: str | int) -> bool:
    field = model.model_fields.get("kind")
    return field is not None and kind in get_args(field.annotation)


Sweep = InversionSweep | ToySweep


def as_inversion(sweep: Sweep) -> InversionSweep:
    """A sweep of a kind that trains and inverts targets. Raises ValueError for another."""
    if isinstance(sweep, ToySweep):
        raise ValueError(f"experiment: expected inversion, got {type(sweep).__name__}")
    return sweep


_HARDWARE = re.compile(r"^Hardware: (.+?)(?=^\w+: |^$|\Z)", re.MULTILINE | re.DOTALL)  # up to the next word of its kind


@dataclass(frozen=True, kw_only=True)
class SearchRecipes:
    """Recipes by which it was checked that a search can run. Plans use them, too.

    Attributes:
        choices: Settings in which every choice of its space, and both ends of every range, occurs.
        baseline: The recipe that it tries first, since the others are compared with it, as dotted key -> value; {}
            where the sweep names none.
        stated: What that recipe, completed by the sweep file, has at the keys of the space.
    """

    choices: tuple[Sweep, ...] = ()
    baseline: dict[str, Any] = field(default_factory=dict)
    stated: dict[str, Any] = field(default_factory=dict)


class LoadedSweep:
    """A checked sweep with the raw settings it came from and the comment that opens its file.

    recipes: those that a search was checked by; none without a search.
    """

    def __init__(self, *, sweep: Sweep, raw: dict[str, Any], intro: str, source: str) -> None:
        self.sweep = sweep
        self.raw = raw
        self.intro = intro
        self.source = source
        self.recipes = SearchRecipes()

    @property
    def search(self) -> Search:
        """The search of a sweep that has one. Raises ValueError for another."""
        return present(self.sweep.search, "search")

    @property
    def looks(self) -> SeedLooks:
        """The looks of a sweep that has some. Raises ValueError for another."""
        return present(self.sweep.looks, "looks")

    @property
    def reaudit(self) -> Reaudit:
        """The second audit of a sweep that asks for one. Raises ValueError for another."""
        return present(self.sweep.reaudit, "reaudit")

    @property
    def hardware(self) -> str | None:
        """What the file's opening comment says after "Hardware:", as one line; None where it says nothing of it."""
        match = _HARDWARE.search(self.intro)
        return " ".join(match[1].split()) if match else None


def check(raw: dict[str, Any], source: str) -> Sweep:
    """Validate settings against the schema; InputError naming source and key."""
    experiment = raw.get("experiment", "inversion")
    if not isinstance(experiment, str) or experiment not in SWEEPS:
        raise InputError(f"{source}: experiment: expected one of {', '.join(SWEEPS)}, got {quoted(experiment)}")
    try:
        return SWEEPS[experiment].model_validate(raw)
    except ValidationError as error:
        mistake = first_mistake(error, lambda place: known_keys(SWEEPS[experiment], raw, place), TAGS)
        raise InputError(f"{source}: {mistake}") from None


def with_values(raw: Mapping[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """The settings with dotted keys set: what holds a key is copied, all else are the same objects."""
    changed = dict(raw)
    for key, value in values.items():
        node = changed
        for name in key.split(".")[:-1]:
            if not isinstance(node.get(name), dict):
                break  # nothing yet, or what cannot hold keys, which is refused
            node[name] = node = dict(node[name])
        set_dotted(changed, key, value, where="grid")
    return changed
