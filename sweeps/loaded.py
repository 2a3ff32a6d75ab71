"""A checked sweep beside the settings it came from."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pydantic import ValidationError

from smoothsweep.core.checks import present
from smoothsweep.core.errors import InputError
from smoothsweep.core.text import quoted
from smoothsweep.sweeps.base import set_dotted
from smoothsweep.sweeps.limits import Reaudit, SeedLooks
from smoothsweep.sweeps.mistakes import first_mistake, known_keys
from smoothsweep.sweeps.schema import SWEEPS, InversionSweep, ToySweep
from smoothsweep.sweeps.search import Search

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
        mistake = first_mistake(error, lambda location: known_keys(SWEEPS[experiment], raw, location))
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
