"""Every number that a sweep file can say of an attack has its bounds with its type."""

from dataclasses import fields, is_dataclass
from typing import Annotated, get_args, get_origin, get_type_hints

import pytest

from smoothsweep.core.attacks.registry import ATTACKS

RELATIVE = {"lr_milestones", "crop_scale", "crop_ratio", "selection_crop_scale", "selection_crop_ratio"}
"""What is bounded by other settings, or as a pair: the class says so in its __post_init__."""


def unbounded(settings, where):
    """Names of numbers without bounds, those of nested settings included."""
    hints = get_type_hints(settings, include_extras=True)
    for field in fields(settings):
        name = f"{where}.{field.name}"
        if field.name not in RELATIVE:
            yield from without_bounds(hints[field.name], name)


def without_bounds(hint, name):
    if get_origin(hint) is Annotated:
        return
    if isinstance(hint, type) and is_dataclass(hint):
        yield from unbounded(hint, name)
    elif hint in (int, float):
        yield name
    else:
        for one in get_args(hint):
            yield from without_bounds(one, name)


@pytest.mark.parametrize("kind", ATTACKS)
def test_every_number_has_bounds(kind):
    assert list(unbounded(ATTACKS[kind], kind)) == []
