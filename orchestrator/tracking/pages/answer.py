"""The sweep's answer from the means of its recipes: what leaks least, and a table for the description of the run."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from smoothsweep.core.judges.columns import BY_KEY, CLASS_METRICS, METRICS
from smoothsweep.core.metrics.frontier import accuracy_leak_frontier
from smoothsweep.core.metrics.metric import Metric
from smoothsweep.core.metrics.verdicts import LEAST_SEEDS
from smoothsweep.orchestrator.planning.trial import Trial
from smoothsweep.orchestrator.reading.findings.display import KNOWLEDGE
from smoothsweep.orchestrator.reading.numbers.format import ascii_text, interval, number
from smoothsweep.orchestrator.reading.numbers.judges import Checks, labelled
from smoothsweep.orchestrator.reading.numbers.wording import LEGEND
from smoothsweep.orchestrator.tracking.pages.strongest import strongest
from smoothsweep.orchestrator.tracking.runs.recipes import RecipeMeans
from smoothsweep.orchestrator.tracking.runs.verdicts import VERDICT, RunVerdict, Verdicts

COMPARED = f"Each recipe is compared with the baseline ({LEGEND})."
ONE_SEED = "With one seed per recipe, which leaks least is inconclusive: add seeds."
ROWS = 40  # of the table; the runs themselves hold the rest


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What a sweep answers, for its note in MLflow.

    Attributes:
        leak: The metric that decides, None where none was measured.
        worst: Every recipe that has met every attack under the seeds that all share, under the attack that works best
            against it, least leak first.
        allowed: Recipes that are accurate enough, in that order.
        front: Allowed recipes that no other beats in both accuracy and leak.
        recipes: All that was given.
        incomplete: Sentences on the recipes that lack an attack or a seed.
    """

    leak: str | None
    worst: tuple[RecipeMeans, ...]
    allowed: tuple[RecipeMeans, ...]
    front: tuple[RecipeMeans, ...]
    recipes: tuple[RecipeMeans, ...]
    incomplete: tuple[str, ...] = ()

    @property
    def least(self) -> RecipeMeans | None:
        """The recipe of the smallest leak, whatever its seeds."""
        return self.allowed[0] if self.allowed else None

    @property
    def recommended(self) -> RecipeMeans | None:
        """The least leaking recipe if it has the seeds that it takes to say anything; None else."""
        return self.least if self.least is not None and len(self.least.seeds) >= LEAST_SEEDS else None


def answer(
    recipes: Sequence[RecipeMeans],
    min_test_acc: float | None = None,
    searched: str | None = None,
    *,
    planned: Sequence[Trial] = (),
    checks: Checks | None = None,
) -> Answer:
    """The defender picks the recipe, the attacker the attack; recipes below `min_test_acc` are not allowed.

    searched: the leak that decides; without one, or if it was not measured, the report's order of judges. planned: the
    trials of the sweep, which name the attacks that a recipe still has to meet. checks: of the judges, of which one
    that can tell no leak decides nothing.
    """
    leak = _deciding_leak(recipes, searched, checks or {})
    if leak is None:
        return Answer(leak=None, worst=(), allowed=(), front=(), recipes=tuple(recipes))
    worst, incomplete = strongest([r for r in recipes if leak in r.metrics], leak, planned)
    ranked = sorted(worst, key=lambda recipe: _badness(recipe, leak))
    allowed = [r for r in ranked if min_test_acc is None or r.metrics.get("test_acc", -1.0) >= min_test_acc]
    known = [recipe for recipe in allowed if "test_acc" in recipe.metrics]
    members = accuracy_leak_frontier(
        [recipe.metrics["test_acc"] for recipe in known], [_badness(recipe, leak) for recipe in known]
    ).members
    front = tuple(known[index] for index in members)
    return Answer(
        leak=leak,
        worst=tuple(ranked),
        allowed=tuple(allowed),
        front=front,
        recipes=tuple(recipes),
        incomplete=incomplete,
    )


def answer_text(sweep_answer: Answer, verdicts: Verdicts | None = None) -> str:
    """The answer in Markdown: a sentence, then every recipe under its worst attack. Empty without a leak.

    verdicts: what the report says, whose first sentence and marks are the note's; None where there is no report.
    """
    best, verdicts = sweep_answer.least, verdicts or Verdicts()
    missing = " ".join(sweep_answer.incomplete)
    if sweep_answer.leak is None or not sweep_answer.worst:
        return " ".join(filter(None, (missing, verdicts.answer if verdicts.checks else "")))
    spec = labelled(BY_KEY[sweep_answer.leak], verdicts.checks)
    if verdicts.answer:
        first = verdicts.answer
    elif best is None:
        first = "No recipe is accurate enough."
    else:
        several = f"**{best.label}** has the lowest leak measured"
        verdict = several if sweep_answer.recommended else f"{ONE_SEED} The lowest leak measured: {best.label}"
        first = f"{verdict}: {_shown(best, spec)} by {_judge(spec)}"
        if "test_acc" in best.metrics:
            first += f", at a test accuracy of {_shown(best, BY_KEY['test_acc'])}"
        first += f" (n = {len(best.seeds)} seed{'s' if len(best.seeds) != 1 else ''})."
    others = [
        labelled(BY_KEY[key], verdicts.checks)
        for key in (*CLASS_METRICS, KNOWLEDGE)
        if key in BY_KEY and key != sweep_answer.leak
    ]
    specs = [BY_KEY["test_acc"], spec, *(s for s in others if any(s.key in r.metrics for r in sweep_answer.worst))]
    of_recipe = {recipe.label: verdicts.of_trials.get(recipe.trial.id) for recipe in sweep_answer.worst}
    compared = any(verdict is not None and verdict.size for verdict in of_recipe.values())
    head = ["recipe, under the attack that works best against it", *(s.label for s in specs), "n"]
    head += ["reduction", "verdict", "n needed"] if compared else []
    rule = ["---", *["---:"] * (len(specs) + 1), *["---"] * (3 if compared else 0)]
    lines = [f"| {' | '.join(row)} |" for row in (head, rule)]
    for recipe in sweep_answer.worst[:ROWS]:
        verdict = of_recipe[recipe.label] or RunVerdict()
        marks = ", ".join(filter(None, (verdict.mark, "not beaten in both" if recipe in sweep_answer.front else "")))
        cells = [
            f"{recipe.label} ({marks})" if marks else recipe.label,
            *(_shown(recipe, s) for s in specs),
            str(len(recipe.seeds)),
        ]
        cells += (
            [verdict.size or "\u2013", verdict.tags.get(VERDICT, "\u2013"), verdict.needed or "\u2013"]
            if compared
            else []
        )
        lines.append(f"| {' | '.join(cells)} |")
    lines += [f"\n{COMPARED}"] if compared else []
    if len(sweep_answer.worst) > ROWS:
        lines.append(f"\n{len(sweep_answer.worst) - ROWS} more recipes are among the runs.")
    return "\n\n".join(filter(None, (missing, first, "\n".join(lines))))


def _deciding_leak(recipes: Sequence[RecipeMeans], searched: str | None, checks: Checks) -> str | None:
    """What decides, as in the report: a hit rate where measured, the independent judge's first, else the first leak."""
    told = [spec.key for spec in METRICS if spec.is_leak and not (spec.key in checks and checks[spec.key].why)]
    first = [key for key in (searched, *CLASS_METRICS) if key in told]
    return next((key for key in (*first, *told) if any(key in r.metrics for r in recipes)), None)


def _badness(recipe: RecipeMeans, leak: str) -> float:
    """The leak such that more is worse."""
    return BY_KEY[leak].sign * recipe.metrics.get(leak, math.nan)


def _judge(spec: Metric) -> str:
    return f"the {spec.label}" if spec.key in CLASS_METRICS else spec.label


def _shown(recipe: RecipeMeans, spec: Metric) -> str:
    """`12.3 % [10.1, 14.9]`, to the digits of the report."""
    if spec.key not in recipe.metrics:
        return "–"
    ends = interval(spec, *(recipe.metrics.get(f"{spec.key}_{end}") for end in ("low", "high")))
    return ascii_text(f"{number(spec, recipe.metrics[spec.key])} {ends}".strip())
