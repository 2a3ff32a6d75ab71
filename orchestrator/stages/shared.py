"""Configurations that many stages have in common: never changed once made, written out as JSON once."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

_CANONICAL = json.JSONEncoder(sort_keys=True, separators=(",", ":"), allow_nan=False)


class Shared(dict[str, Any]):
    """A configuration of a stage, or its hints, that is not changed once it is made.

    Trials that agree in it hold the same object, so that it is written out, checked and counted once. It travels to
    other processes as a plain dict.
    """

    __slots__ = ("_kin", "_text")

    def __init__(self, values: Mapping[str, Any], *, but_for_seeds: Shared | None = None) -> None:
        """but_for_seeds: one for all configurations that differ from this one in their seeds alone, None for itself."""
        super().__init__(values)
        self._kin, self._text = but_for_seeds, None

    @property
    def kin(self) -> Shared:
        """The same object for all that differ in their seeds alone, where whoever made them said so."""
        return self if self._kin is None else self._kin

    @property
    def text(self) -> str:
        """Its canonical JSON."""
        if self._text is None:
            self._text = _CANONICAL.encode(self)
        return self._text

    def __reduce__(self) -> tuple[type[dict[str, Any]], tuple[dict[str, Any]]]:
        return dict, (dict(self),)


NOTHING = Shared({})


def canonical_json(value: object) -> str:
    """JSON with sorted keys and no spaces; NaN and infinity are refused, floats are written by repr."""
    return value.text if isinstance(value, Shared) else _CANONICAL.encode(value)
