"""Searches of several classes side by side on a CPU, each with the bits that it has by itself.

A pass through large networks costs a row the less, the more rows it has, up to some twenty: their weights are read, and
laid out for the kernels, once for all rows (docs/benchmarks.md). The rows of a search share nothing. Whether kernels
give them the same bits beside others is tried first; where they do not, classes are computed one after the other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from smoothsweep.core.attacks.optimisation.descent import Descent
from smoothsweep.core.attacks.shared.together import as_usual, rows_of, same_parts, some_of
from smoothsweep.core.attacks.shared.view import GradientView

Search = Callable[[Sequence[int], int], Descent]
"""(classes, steps) -> the descent of their rows, one class after the other."""

_TRIED = 2  # steps: the second one has the optimiser's memory of the first


def descents_of(
    search: Search, classes: Sequence[int], *, rows: int, steps: int, view: GradientView, networks: tuple[object, ...]
) -> list[Descent]:
    """The descent of each class, of `rows` rows each: all in one where that changes no bit of any.

    networks: the prepared ones that the search goes through. The trial, once for each number of classes, is not counted
    among the target's queries.
    """
    run = view.execution

    def agree() -> bool:
        tried = min(_TRIED, steps)
        with view.uncounted():
            whole = search(classes, tried)
            return all(
                same_parts(search([classes[number]], tried), rows_of(whole, _span(number, rows)))
                for number in some_of(len(classes))
            )

    if len(classes) > 1 and as_usual(run) and run.holds(("searches", len(classes), rows), networks, agree):
        whole = search(classes, steps)
        return [rows_of(whole, _span(number, rows)) for number in range(len(classes))]
    return [search([one], steps) for one in classes]


def _span(number: int, rows: int) -> slice:
    return slice(number * rows, (number + 1) * rows)
