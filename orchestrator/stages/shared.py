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

    __slots__ = ("_is_kept", "_text", "kin")

    def __init__(self, values: Mapping[str, Any], *, kin: object = None, is_kept: bool = True) -> None:
        """kin: any object that all configurations hold which differ from this one in their seeds alone, None where no
        other does. is_kept: whether the JSON is kept; False where one stage alone holds the configuration.
        """
        super().__init__(values)
        self.kin, self._is_kept = kin, is_kept
        self._text: str | None = None

    @property
    def alike(self) -> int:
        """A number, the same for all that differ in their seeds alone, as long as one of them lives."""
        return id(self if self.kin is None else self.kin)

    @property
    def text(self) -> str:
        """Its canonical JSON."""
        if self._text is not None:
            return self._text
        text = _CANONICAL.encode(self)
        self._text = text if self._is_kept else None
        return text

    def __reduce__(self) -> tuple[type[dict[str, Any]], tuple[dict[str, Any]]]:
        return dict, (dict(self),)


NOTHING = Shared({})


def canonical_json(value: object) -> str:
    """JSON with sorted keys and no spaces; NaN and infinity are refused, floats are written by repr."""
    return value.text if isinstance(value, Shared) else _CANONICAL.encode(value)
