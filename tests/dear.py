"""Cases that cost too much for every run: the fast tests keep one of each kind, `make test-slow` has all."""

from collections.abc import Iterable
from typing import Any

import pytest

SLOW = pytest.mark.slow


def first_of(cases: Iterable[Any]) -> list[Any]:
    """The first case as it is, the others as slow tests."""
    first, *others = cases
    return [first, *(pytest.param(case, marks=SLOW) for case in others)]


def but_dear(cases: Iterable[Any], dear: Iterable[Any]) -> list[Any]:
    """The cases, those that are among `dear` as slow tests."""
    slow = list(dear)
    return [pytest.param(case, marks=SLOW) if case in slow else case for case in cases]
