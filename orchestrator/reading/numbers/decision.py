"""Choose the recipe with the lowest leak under the attack that works best against it."""

from __future__ import annotations

from dataclasses import dataclass

from smoothsweep.core.checks import present
from smoothsweep.core.metrics.frontier import accuracy_leak_frontier
from smoothsweep.core.metrics.leak_comparisons import REDUCES
from smoothsweep.core.metrics.verdicts import LEAST_SEEDS
from smoothsweep.orchestrator.reading.numbers.summary import Summary

LEAST, LOWEST = "least leak", "lowest measured"


@dataclass(frozen=True, kw_only=True)
class Decision:
    """What the choice among recipes rests on.

    Attributes:
        rows: Recipe -> its row of the frame under its worst attack, where the leak was measured.
        best: The row that leaks least among the recipes accurate enough, None where there is none.
        reference: The baseline's row, if known.
        clear: Whether the best reduces the leak of the reference.
        significant: Whether it does that of every other allowed recipe, too.
        ties: Other allowed recipes that leak exactly as little.
        front: Recipes accurate enough that no other such recipe beats in both test accuracy and leak, most accurate
            first.
        below: Recipes that miss the accuracy asked for.
        seeds: How many the recipes share.
    """

    rows: dict[str, int]
    best: int | None
    reference: int | None
    clear: bool = False
    significant: bool = False
    ties: tuple[str, ...] = ()
    front: tuple[str, ...] = ()
    below: tuple[str, ...] = ()
    seeds: int = 0

    @property
    def chosen(self) -> int:
        """The row `best`. Raises ValueError where no recipe is accurate enough."""
        return present(self.best, "best recipe")

    @property
    def baseline(self) -> int:
        """The row `reference`. Raises ValueError where the baseline was not measured."""
        return present(self.reference, "baseline")

    @property
    def marked(self) -> int | None:
        """The row that tables mark as leaking least; None with one recipe or one seed, or on a tie."""
        return self.best if len(self.rows) > 1 and not self.ties and self.seeds >= LEAST_SEEDS else None

    @property
    def mark(self) -> str:
        """The label of the row `marked`: `LEAST` where it differs significantly from all recipes, else `LOWEST`."""
        return LEAST if self.significant else LOWEST


def decide(summary: Summary) -> Decision:
    """The defender picks the recipe, the attacker the attack; recipes below `min_test_acc` cannot win.

    Who leaks least is decided on the seeds that the recipes share, see `Evidence`.
    """
    evidence = summary.evidence
    if evidence is None:
        return Decision(rows={}, best=None, reference=None)
    rows, choice, baseline = dict(evidence.rows), evidence.recommendation, summary.baseline_recipe
    front, below = _front(summary, rows, evidence.sign), _below(summary, rows)
    reference = rows.get(baseline) if baseline is not None else None
    if choice.best is None:
        return Decision(rows=rows, best=None, reference=reference, front=front, below=below, seeds=len(evidence.seeds))
    against = evidence.reduction(choice.best, baseline) if baseline is not None else None
    clear = against is not None and against.word == REDUCES
    lowest = evidence.mean(choice.best)
    ties = tuple(r for r in choice.allowed if r != choice.best and evidence.mean(r) == lowest)
    return Decision(
        rows=rows,
        best=rows[choice.best],
        reference=reference,
        clear=clear,
        ties=ties,
        front=front,
        below=below,
        significant=clear and not choice.runners_up,
        seeds=len(evidence.seeds),
    )


def _below(summary: Summary, rows: dict[str, int]) -> tuple[str, ...]:
    """The recipes below `min_test_acc`, or of unknown accuracy."""
    floor, accuracy = summary.min_test_acc, summary.frame["test_acc"]
    return () if floor is None else tuple(recipe for recipe, row in rows.items() if not accuracy[row] >= floor)


def _front(summary: Summary, rows: dict[str, int], sign: int) -> tuple[str, ...]:
    """The Pareto front of mean accuracy and mean leak among the accurate enough recipes."""
    columns = list(dict.fromkeys(("recipe", "test_acc", summary.primary)))
    places = summary.frame.loc[list(rows.values()), columns].dropna(subset="test_acc")
    if not len(places):
        return ()
    leak = sign * places[summary.primary].to_numpy(float)
    frontier = accuracy_leak_frontier(places["test_acc"].to_numpy(float), leak, min_accuracy=summary.min_test_acc)
    return tuple(places["recipe"].iloc[list(frontier.members)])
