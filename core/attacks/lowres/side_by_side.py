"""Searches of several classes side by side on a CPU, each with the bits that it has by itself.

A pass through large networks costs a row the less, the more rows it has, up to some twenty: their weights are read, and
laid out for the kernels, once for all rows (docs/benchmarks.md). The rows of a search share nothing. Whether kernels
give them the same bits beside others is tried first; where they do not, classes are computed one after the other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from smoothsweep.core.attacks.optimisation.descent import Descent
from smoothsweep.core.attacks.shared.execution import descent_rows, is_default_execution, same_tensors, sample_positions
from smoothsweep.core.attacks.shared.view import GradientView

Search = Callable[[Sequence[int], int], Descent]
"""(classes, steps) -> the descent of their rows, one class after the other."""

_TRIED = 2  # steps: the second one has the optimiser's memory of the first


def descend_classes(
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
                same_tensors(search([classes[number]], tried), descent_rows(whole, _span(number, rows)))
                for number in sample_positions(len(classes))
            )

    if (
        len(classes) > 1
        and is_default_execution(run)
        and run.check_once(("searches", len(classes), rows), networks, agree)
    ):
        whole = search(classes, steps)
        return [descent_rows(whole, _span(number, rows)) for number in range(len(classes))]
    return [search([target_class], steps) for target_class in classes]


def _span(number: int, rows: int) -> slice:
    return slice(number * rows, (number + 1) * rows)
