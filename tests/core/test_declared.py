"""What the types of settings promise is checked when they are built."""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Annotated, Any, ClassVar, Literal

import pytest
from annotated_types import Ge, Gt, Le, Lt

from smoothsweep.core.bounds import LARGEST, SINGLE, Beta, Count, FilePath
from smoothsweep.core.declared import check_constants, check_fields, check_value
from smoothsweep.core.errors import InputError
from smoothsweep.core.plugins import FAMILIES


@dataclass(frozen=True)
class Nested:
    size: int = 1


NESTED = Nested()
TAKEN = [
    (bool, [True, False], [None, 0, 1, "yes", ()], "a valid boolean"),
    (int, [0, -3], [None, True, 1.0, "1"], "a valid integer"),
    (float, [0.5, -2, 0], [None, 2 * SINGLE, False, math.nan, math.inf, -math.inf, 10**400, "0.5"], "a "),
    (str, ["", "x"], [None, 1, True, ("x",)], "a valid string"),
    (int | None, [3, None], [True, "3", 3.0], "a valid integer"),
    (Literal["a", 1], ["a", 1], ["b", 2, None, {"a": 1}], "one of "),
    (tuple[int, ...], [(), (1,), (1, 2)], [1, [1], (1.0,), ("x",), "12", None], "a "),
    (tuple[float, float], [(1, 0.5)], [(), (1,), (1, 2, 3), (1, "x"), None, 3], "a"),
    (tuple[str, ...] | None, [("x",), None], ["x", (1,)], "a "),
    (Nested, [NESTED], [None, {"size": 1}, 3, ()], "an instance of Nested"),
    (Any, [None, {}, 3, "x"], [], ""),
]
BOUNDS = [
    (Annotated[int, Ge(2)], [2, 3], [1, 2.0, True], "a "),
    (Annotated[int, Le(2)], [2, -LARGEST], [3, 10**400], "a whole number of at most 2"),
    (Annotated[float, Gt(2)], [2.1], [2, 1, "2.1"], "a "),
    (Annotated[float, Ge(2)], [2, 2.1], [1.9, math.inf], "a "),
    (Annotated[float, Gt(0), Le(2)], [2, 1], [2.1, 0], "a number "),
    (Annotated[float, Ge(0), Lt(2)], [1.9, 0], [2, -1, math.nan], "a "),
    (Count | None, [1, 10**9, None], [0, 10**9 + 1], "a whole number of at "),
    (tuple[Annotated[float, Gt(0)], ...], [(), (1, 2)], [(1, 0)], "a number above 0"),
    (FilePath, ["a/b"], ["", "\0"], "the path of a file or folder"),
    (FilePath, ["a/b"], [3], "a valid string"),
]


@pytest.mark.parametrize(("hint", "taken", "refused", "expected"), [*TAKEN, *BOUNDS])
def test_a_value_of_another_type_or_out_of_bounds_is_one_line(hint, taken, refused, expected):
    for value in taken:
        check_value(hint, value, "attack.steps")
    for value in refused:
        with pytest.raises(InputError) as error:
            check_value(hint, value, "attack.steps")
        assert str(error.value).startswith("attack.steps")
        assert f": expected {expected}" in str(error.value)
        assert ", got " in str(error.value) and "\n" not in str(error.value)


@dataclass(frozen=True, kw_only=True)
class Settings:
    whole: Annotated[Count, Ge(4)] = 8
    betas: tuple[Beta, Beta] = (0.9, 0.999)


def test_the_field_of_a_wrong_value_is_named():
    check_fields(Settings(whole=4), "thing: ")
    with pytest.raises(InputError, match=r"^thing: whole: expected a whole number of at least 4, got 3$"):
        check_fields(Settings(whole=3), "thing: ")
    with pytest.raises(InputError, match=r"^thing: betas: expected a number below 1, got 1.0$"):
        check_fields(Settings(betas=(0.5, 1.0)), "thing: ")


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
        ({"revision": True}, "revision: expected a valid integer, got True"),
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
