"""Settings of the cells of one sweep, each distinct part of them checked once.

Cells of a grid differ in a few keys. A part (`recipe`, `attack`, ...) that some cell before had alike is taken from
there, checked and frozen as it is; what parts have to do with each other is checked for every cell.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from pydantic import BaseModel

from smoothsweep.sweeps.loaded import Sweep, with_values
from smoothsweep.sweeps.schema import SWEEPS
from smoothsweep.sweeps.training import Recipe

INSIDE = {"recipe": ("defense", "augmentation", "poison")}
"""Part -> what of it is checked apart from the rest of it, whatever that is, and so may be shared by itself."""


class PartsOfCells:
    """Makes the settings of cells from the raw settings of their sweep."""

    def __init__(self, raw: Mapping[str, Any]) -> None:
        """raw: without what spans the cells."""
        self.schema = SWEEPS[raw.get("experiment", "inversion")]
        self._raw = raw
        self._shared: dict[str, Any] = {}  # parts as no cell changes them
        self._checked: dict[tuple[str, str], BaseModel] = {}  # what and its values -> the part
        self._names: dict[frozenset[str], set[str]] = {}
        self._unchanged: dict[tuple[str, str], BaseModel] = {}  # part, key -> what the file has there

    def settings(self, values: Mapping[str, Any]) -> Sweep:
        """The settings with these values under dotted keys, set in their order.

        Raises pydantic's ValidationError or InputError where they are not valid; what it says need not be what checking
        all at once would say.
        """
        base_settings, made = {**self._raw, **self._shared}, {}
        for part, keys in _by_part(tuple(values)):
            name = repr([(key, values[key]) for key in keys])
            if (part_settings := self._checked.get((part, name))) is None:
                part_settings = self._with_values(part, {key: values[key] for key in keys})
                made[part] = (name, part_settings)
            base_settings[part] = part_settings
        settings = self.schema.model_validate(base_settings)
        self._note(settings, base_settings, made)
        for part in (settings, *[getattr(settings, part, None) for part in made]):
            if isinstance(part, BaseModel):
                self._share_names(part)
        return settings

    def _share_names(self, part: BaseModel) -> None:
        """Hold one set of the names that were given for all parts with the same: it is most of what a part takes."""
        names = self._names.setdefault(frozenset(part.model_fields_set), part.model_fields_set)
        object.__setattr__(part, "__pydantic_fields_set__", names)

    def _with_values(self, part: str, values: Mapping[str, Any]) -> Any:
        """The raw part with values set, and in it what was checked before."""
        raw = with_values({part: self._raw[part]} if part in self._raw else {}, values)[part]
        if part not in INSIDE or not isinstance(raw, dict):
            return raw
        inside = [(key, self._inside(part, key, raw[key])) for key in INSIDE[part] if key in raw]
        return {**raw, **{key: checked for key, checked in inside if checked is not None}}

    def _inside(self, part: str, key: str, raw: Any) -> BaseModel | None:
        """What was checked of this value under a key of a part, None if it was not."""
        as_written = self._raw.get(part)
        if isinstance(as_written, dict) and raw is as_written.get(key):  # no cell has changed it
            return self._unchanged.get((part, key))
        return self._checked.get((f"{part}.{key}", repr(raw)))

    def _note(self, settings: Sweep, values: Mapping[str, Any], made: Mapping[str, tuple[str, Any]]) -> None:
        """Keep the parts that were checked just now."""
        for part, (name, raw) in made.items():
            checked = getattr(settings, part, None)
            if not isinstance(raw, dict) or not isinstance(checked, BaseModel):
                continue
            self._checked[part, name] = checked
            for key in INSIDE.get(part, ()) if isinstance(checked, Recipe) else ():
                if isinstance(raw.get(key), dict):
                    self._checked[f"{part}.{key}", repr(raw[key])] = getattr(checked, key)
                    if raw[key] is (self._raw.get(part) or {}).get(key):
                        self._unchanged[part, key] = getattr(checked, key)
        if not self._shared:
            parts = {part: getattr(settings, part, None) for part in self._raw if values[part] is self._raw[part]}
            self._shared = {part: checked for part, checked in parts.items() if isinstance(checked, BaseModel)}


@lru_cache(maxsize=64)
def _by_part(keys: tuple[str, ...]) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """The keys of each part, in their order."""
    parts = dict.fromkeys(key.partition(".")[0] for key in keys)
    return tuple((part, tuple(key for key in keys if key.partition(".")[0] == part)) for part in parts)
