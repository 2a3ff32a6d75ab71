"""`--set PATH=VALUE`: read like the sweep file, and refused where it could not take effect."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from smoothsweep.core.errors import InputError
from smoothsweep.core.text import quoted, shortened
from smoothsweep.sweeps.settings import set_dotted
from smoothsweep.sweeps.yaml_reader import read_yaml

OF_DOTTED_KEYS = ("grid", "baseline")
"""Blocks of a sweep file whose keys are dotted ones: `grid.recipe.lr` is the grid's key `recipe.lr`."""


def apply_overrides(raw: dict[str, Any], overrides: list[str]) -> None:
    """Set the keys in a sweep file's settings.

    Raises InputError (one line) where an override is no PATH=VALUE, names what another one names, or what the sweep's
    grid, cells or search set in every trial.
    """
    earlier_overrides: list[tuple[str, Any]] = []
    for override in overrides:
        key, value = _parsed(override)
        for other, earlier in earlier_overrides:
            if _meet(_leaves(other, earlier), _leaves(key, value)):
                expected = f"--set {shortened(key)}: expected every key once"
                raise InputError(f"{expected}, got {quoted(earlier)} (--set {shortened(other)}) and {quoted(value)}")
        earlier_overrides.append((key, value))
        _set(raw, key, value)
    swept = dict(_swept(raw))  # by now a grid that was itself set is there
    for key, value in earlier_overrides:
        for leaf in _leaves(key, value):
            if swept_holder := next((holder for holder in _holders(leaf) if holder in swept), None):
                place = swept[swept_holder]
                raise InputError(
                    f"--set {shortened(key)}: expected a key that the sweep leaves alone, got one that {place} sets in "
                    f"every trial ({shortened(swept_holder)}); set {place} itself"
                )


def _set(raw: dict[str, Any], key: str, value: Any) -> None:
    block, _, inner = key.partition(".")
    held = raw.get(block)
    if block in OF_DOTTED_KEYS and inner and (held is None or isinstance(held, dict)):
        raw[block] = {**(held or {}), inner: value}
    else:
        set_dotted(raw, key, value, where="--set")


def _parsed(override: str) -> tuple[str, Any]:
    key, equals, value = override.partition("=")
    if not equals or not key:
        raise InputError(f"--set: expected PATH=VALUE, got {quoted(override)}")
    return key, read_yaml(value, f"--set {shortened(key)}")


def _leaves(key: str, value: Any) -> set[str]:
    """The dotted keys that a value under `key` decides: those inside a mapping, else the key itself."""
    if not isinstance(value, Mapping) or not value:
        return {key}
    return {leaf for name, inner in value.items() for leaf in _leaves(f"{key}.{name}", inner)}


def _meet(some: set[str], others: set[str]) -> bool:
    """Whether a key of one lies in, or is, a key of the other."""
    return any(holder in others for key in some for holder in _holders(key)) or any(
        holder in some for key in others for holder in _holders(key)
    )


def _holders(key: str) -> list[str]:
    """A dotted key and all that it lies in: a.b.c, a.b, a."""
    parts = key.split(".")
    return [".".join(parts[:length]) for length in range(len(parts), 0, -1)]


def _swept(raw: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """(dotted key, place) of everything that a sweep sets trial by trial."""
    cells, search = raw.get("cells"), raw.get("search")
    for place, holder in (
        ("grid", raw.get("grid")),
        *((f"cells.{number}", cell) for number, cell in enumerate(cells if isinstance(cells, list) else [])),
        ("search.space", search.get("space") if isinstance(search, Mapping) else None),
    ):
        for key in holder if isinstance(holder, Mapping) else ():
            yield key, place
