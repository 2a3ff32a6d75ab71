"""What the types of settings promise is checked when they are built."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Annotated, ClassVar, Literal

import pytest
from annotated_types import Ge

from smoothsweep.core.bounds import Beta, Count, Fraction, NotNegative, Positive
from smoothsweep.core.declared import check_constants, check_fields
from smoothsweep.core.errors import InputError
from smoothsweep.core.plugins import FAMILIES


@dataclass(frozen=True, kw_only=True)
class Settings:
    whole: Annotated[Count, Ge(4)] = 8
    rate: Positive = 0.1
    weight: NotNegative = 0.0
    share: Fraction = 0.5
    betas: tuple[Beta, Beta] = (0.9, 0.999)
    marks: tuple[Fraction, ...] = ()
    choice: Literal["one", "other"] = "one"
    free: float | None = None
    either: int | str = "any"
    maybe: Count | None = None
    name: str = "a word"


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"marks": (0, 0.5, 1)},
        {"whole": 4, "rate": 3, "maybe": 2, "free": -1e38, "share": 1},
        {"either": -1},
    ],
)
def test_what_lies_in_its_range_passes(given):
    check_fields(Settings(**given), "thing: ")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"whole": 3}, "thing: whole: expected a whole number of at least 4, got 3"),
        ({"whole": 8.0}, "whole: expected a whole number"),
        ({"whole": True}, "whole: expected a whole number"),
        ({"whole": 10**10}, "whole: expected a whole number of at most"),
        ({"rate": 0}, "rate: expected a finite number above 0, got 0"),
        ({"rate": float("nan")}, "rate: expected a finite number"),
        ({"rate": "0.1"}, "rate: expected a finite number"),
        ({"weight": -0.1}, "weight: expected a finite number of at least 0"),
        ({"share": 1.5}, r"share: expected a number in \[0, 1\], got 1.5"),
        ({"betas": (0.5, 1.0)}, r"betas: expected a number in \[0, 1\), got 1.0"),
        ({"betas": (0.5,)}, "betas: expected a list of 2 values"),
        ({"marks": (0.5, 2.0)}, "marks: expected a number in"),
        ({"choice": "third"}, "choice: expected one of one, other, got 'third'"),
        ({"free": float("inf")}, "free: expected a finite number"),
        ({"either": -1.5}, "either: expected a whole number or text, got -1.5"),
        ({"name": None}, "name: expected text, got None"),
        ({"maybe": 0}, "maybe: expected a whole number of at least 1"),
    ],
)
def test_what_does_not_is_named(given, message):
    with pytest.raises(InputError, match=message):
        check_fields(Settings(**given), "thing: ")


class Constants:
    access: ClassVar[Literal["none", "scores"]] = "none"
    cites: ClassVar[tuple[str, ...]] = ()
    revision: ClassVar[int] = 1
    columns: ClassVar[Mapping[str, str]] = {}


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({}, None),
        ({"access": property(lambda self: "anything")}, None),
        ({"access": "all", "revision": 2}, "access: expected one of none, scores, got 'all'"),
        ({"cites": "a2020key"}, "cites: expected a list, got 'a2020key'"),
        ({"revision": True}, "revision: expected a whole number, got True"),
        ({"columns": ["key"]}, "columns: expected "),
    ],
)
def test_a_constant_of_a_class_is_what_its_declaration_says(changed, message):
    made = type("Made", (Constants,), changed)
    if message is None:
        check_constants(made)
    else:
        with pytest.raises(InputError, match=re.escape(message)):
            check_constants(made)


@pytest.mark.parametrize(
    ("family", "table"),
    [
        ("attacks", "ATTACKS"),
        ("membership", "MEMBERSHIP_ATTACKS"),
        ("defenses", "DEFENSES"),
        ("judges", "JUDGES"),
        ("models", "KINDS"),
    ],
)
def test_so_are_those_of_every_member_of_a_family(family, table):
    members = getattr(import_module(FAMILIES[family]), table)
    assert members
    for member in members.values():
        check_constants(member)
