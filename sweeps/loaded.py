"""A checked sweep beside the settings it came from."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from smoothsweep.core.errors import InputError
from smoothsweep.core.text import shown
from smoothsweep.sweeps.known_keys import known_keys
from smoothsweep.sweeps.mistakes import first_mistake
from smoothsweep.sweeps.schema import SWEEPS, InversionSweep, ToySweep
from smoothsweep.sweeps.settings import set_dotted

Sweep = InversionSweep | ToySweep


def inversion(sweep: Sweep) -> InversionSweep:
    """A sweep of a kind that trains and inverts targets. Raises ValueError for another."""
    if isinstance(sweep, ToySweep):
        raise ValueError(f"experiment: expected inversion, got {type(sweep).__name__}")
    return sweep


_HARDWARE = re.compile(r"^Hardware: (.+?)(?=^\w+: |^$|\Z)", re.MULTILINE | re.DOTALL)  # up to the next word of its kind


class LoadedSweep:
    """A checked sweep with the raw settings it came from and the comment that opens its file."""

    def __init__(self, *, sweep: Sweep, raw: dict[str, Any], intro: str, source: str) -> None:
        self.sweep = sweep
        self.raw = raw
        self.intro = intro
        self.source = source

    @property
    def hardware(self) -> str | None:
        """What the file's opening comment says after "Hardware:", as one line; None where it says nothing of it."""
        said = _HARDWARE.search(self.intro)
        return " ".join(said[1].split()) if said else None


def check(raw: dict[str, Any], source: str) -> Sweep:
    """Validate settings against the schema; InputError naming source and key."""
    experiment = raw.get("experiment", "inversion")
    if not isinstance(experiment, str) or experiment not in SWEEPS:
        raise InputError(f"{source}: experiment: expected one of {', '.join(SWEEPS)}, got {shown(experiment)}")
    try:
        return SWEEPS[experiment].model_validate(raw)
    except ValidationError as error:
        found = first_mistake(error, lambda location: known_keys(SWEEPS[experiment], raw, location))
        raise InputError(f"{source}: {found}") from None


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
