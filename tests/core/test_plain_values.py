"""What a field of settings takes: values of its type within its bounds, and nothing else."""

import math
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import pytest
from annotated_types import Ge, Gt, Le, Lt

from smoothsweep.core.bounds import LARGEST, SINGLE, Count, FilePath
from smoothsweep.core.declared import check_value, quick_check
from smoothsweep.core.errors import InputError


@dataclass(frozen=True)
class Nested:
    size: int = 1


NESTED = Nested()
TAKEN = [
    (bool, [True, False], [None, 0, 1, "yes", ()], "true or false"),
    (int, [0, -3, 10**400], [None, True, 1.0, "1"], "a whole number"),
    (float, [0.5, -2, 0], [None, False, math.nan, math.inf, -math.inf, 10**400, "0.5"], "a finite number"),
    (str, ["", "x"], [None, 1, True, ("x",)], "text"),
    (int | None, [3, None], [True, "3", 3.0], "a whole number or nothing"),
    (Literal["a", 1], ["a", 1], ["b", True, 1.0, None, {"a": 1}], "one of a, 1"),
    (tuple[int, ...], [(), (1,), (1, 2)], [1, [1], (1.0,), ("x",), "12", None], "a list"),
    (tuple[float, float], [(1, 0.5)], [(), (1,), (1, 2, 3), (1, "x"), None, 3], "a list of 2 values"),
    (tuple[str, ...] | None, [("x",), None], ["x", (1,)], "a list or nothing"),
    (Nested, [NESTED], [None, {"size": 1}, 3, ()], "keys and their values"),
    (Any, [None, {}, 3, "x"], [], ""),
]
BOUNDS = [
    (Annotated[int, Ge(2)], [2, 3], [1, 2.0, True], "a whole number of at least 2"),
    (Annotated[int, Le(2)], [2, -LARGEST], [3], "a whole number of at most 2"),
    (Annotated[float, Gt(2)], [2.1], [2, 1, "2.1"], "a finite number above 2"),
    (Annotated[float, Ge(2)], [2, 2.1], [1.9, math.inf], "a finite number of at least 2"),
    (Annotated[float, Gt(0), Le(2)], [2, 1], [2.1, 0], "a number in (0, 2]"),
    (Annotated[float, Ge(0), Lt(2)], [1.9, 0], [2, -1, math.nan], "a number in [0, 2)"),
    (Count | None, [1, 10**9, None], [0, 10**9 + 1], "a whole number of at "),
    (tuple[Annotated[float, Gt(0)], ...], [(), (1, 2)], [(1, 0)], "a finite number above 0"),
    (FilePath, ["a/b"], ["", "\0"], "the path of a file or folder"),
    (FilePath, ["a/b"], [3], "text"),
]


@pytest.mark.parametrize(("hint", "taken", "refused", "expected"), [*TAKEN, *BOUNDS])
def test_a_value_of_another_type_or_out_of_bounds_is_one_line(hint, taken, refused, expected):
    for value in taken:
        check_value(hint, value, "attack.steps")
    for value in refused:
        with pytest.raises(InputError) as error:
            check_value(hint, value, "attack.steps")
        assert str(error.value).startswith(f"attack.steps: expected {expected}") and ", got " in str(error.value)
        assert "\n" not in str(error.value)


DECIDED = [hint for hint, *_ in (*TAKEN, *BOUNDS) if hint not in (Any, FilePath, Literal["a", 1])]
ANYTHING = [value for _, taken, refused, _ in (*TAKEN, *BOUNDS) for value in (*taken, *refused)]
ENDS = [0, 1, 2, 10**9, 10**9 + 1, LARGEST, LARGEST + 1, SINGLE, 2 * SINGLE, 1.7e308, 1e-320, -0.0, -LARGEST - 1]


@pytest.mark.parametrize("hint", [hint for hint, *_ in (*TAKEN, *BOUNDS)])
def test_the_quick_test_is_true_of_nothing_that_is_refused(hint):
    test = quick_check(hint)
    for value in (*ANYTHING, *ENDS, *map(float, ENDS), *((end, end) for end in ENDS), *((end,) for end in ENDS)):
        if test(value):
            check_value(hint, value, "attack.steps")


@pytest.mark.parametrize("hint", DECIDED)
def test_the_quick_test_decides_what_settings_usually_are(hint):
    """Else everything were checked the long way, which is right and slow."""
    usual = next(taken for known, taken, *_ in (*TAKEN, *BOUNDS) if known == hint)[0]
    assert quick_check(hint)(usual)
