"""Trials to cells, one row per combination of axes, and the choice of the recipe that leaks least."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import lru_cache
from typing import Any

import pandas as pd

from smoothsweep.core.attacks.shared.base import ACCESS_LEVELS
from smoothsweep.core.checks import present
from smoothsweep.core.defenses.labels import RecipeWords, recipe_words
from smoothsweep.core.judges.columns import BY_KEY, CLASS_METRICS, METRICS, metric_of
from smoothsweep.core.metrics.comparisons import ACCURACY_MARGIN
from smoothsweep.core.metrics.frontier import accuracy_leak_frontier
from smoothsweep.core.metrics.leak_comparisons import REDUCES, LeakComparison
from smoothsweep.core.metrics.metric import Metric
from smoothsweep.core.metrics.verdicts import LEAST_SEEDS
from smoothsweep.orchestrator.result.cells import Key, compares_settings, hashable, trials_by_cell
from smoothsweep.orchestrator.result.data import Axis, ReportData
from smoothsweep.orchestrator.result.estimates import (
    NOTHING,
    Checks,
    Comparison,
    Seeds,
    Settings,
    collect,
    estimate,
    judge_checks,
    labelled,
)
from smoothsweep.orchestrator.result.evidence import Cells, Evidence
from smoothsweep.orchestrator.result.format import axis_words, defense_key, is_null
from smoothsweep.orchestrator.result.format import estimate as estimate_words

UNCHANGED = "unchanged attack"


@dataclass(frozen=True, kw_only=True)
class Defended:
    """The defense of a recipe, and its other axes in words (an architecture, say), empty without any."""

    words: RecipeWords
    setting: str = ""


@dataclass(frozen=True, kw_only=True, eq=False)
class Summary(Cells):
    """The cells of a sweep and how to read them.

    frame: one row per combination of axes, attacks outermost, numbers ascending: the axes, `recipe` and `attack`
    (labels), `access`, `control`, `published`, `n` (seeds done), `failed`, `missing`, `trials`, `is_baseline`, and for
    every metric m of `METRICS`: m, m_low, m_high (mean over the seeds and its interval), m_n (seeds measured), and
    m_diff, m_diff_low, m_diff_high, m_diff_n (seeds in common), m_verdict ("higher" | "lower" | "inconclusive" | "")
    against the baseline cell (`reference_recipe` is its recipe), as `core.metrics.comparisons` decides it among all
    recipes that meet the same attack, paired by seed and, where hit rates per class are known, by class. Means of rates
    have Wilson's interval (`core.metrics.intervals`), of hit rates over seeds and classes, the rest Student's t over
    seeds; with one seed the interval of a hit rate is over classes alone, and others have none (NaN).

    Attributes:
        primary: The metric that decides, None where no leak was measured, or none by a judge that can tell one.
        measured: The metrics with at least one value.
        defenses: Recipe label -> its defense, where known.
        accuracy_margin: As of `ReportData`.
        by_setting: The sweep asks what settings of the attack change, see `compares_settings`. The rest is described
            with `Cells`.
    """

    axes: tuple[Axis, ...]
    primary: str | None
    measured: tuple[str, ...]
    judged_classes: int | None = None
    accuracy_margin: float = ACCURACY_MARGIN
    defenses: Mapping[str, Defended] = field(default_factory=dict)
    by_setting: bool = False
    _evidence: dict[tuple[str, str], Evidence | None] = field(default_factory=dict, repr=False)

    @property
    def spec(self) -> Metric:
        """The metric that decides."""
        return self.metric(self.deciding)

    def metric(self, key: str) -> Metric:
        """A metric as this sweep shows it: a judge that is not good has its accuracy in the label."""
        return labelled(metric_of(key), self.checks)

    def rows(self, metric: str, attack: str | None = None) -> dict[str, int]:
        """Recipe -> its row where the metric was measured: under one attack, or (None) the worst for it, of the recipes
        that have met every attack."""
        if attack is None:
            return self.worst(metric)
        mine = self.frame.loc[(self.frame["attack"] == attack) & self.frame[metric].notna(), "recipe"]
        return {recipe: int(row) for row, recipe in mine.items()}

    def leaks(self, metric: str, attack: str | None = None) -> dict[str, float]:
        """Recipe -> leak, small is good: under one attack, or (None) the worst for it."""
        sign = metric_of(metric).sign
        return {recipe: sign * float(self.frame.loc[row, metric]) for recipe, row in self.rows(metric, attack).items()}

    def leak(self, row: int) -> float:
        """The leak of a row by the metric that decides, small is good."""
        return self.spec.sign * float(self.frame.loc[row, self.primary])

    def value_text(self, row: int, metric: str | None = None) -> str:
        """A metric of a row for a sentence, by default the one that decides: `13 % [10, 17]`."""
        key = metric or self.deciding
        return estimate_words(metric_of(key), *self.estimate(row, key)[:3])

    @property
    def recipes(self) -> list[str]:
        """Recipe labels in the order of the frame."""
        return list(dict.fromkeys(self.frame["recipe"]))

    @property
    def attacks(self) -> list[str]:
        """Attack labels in the order of the frame, controls left out; [""] where the sweep varies no attack."""
        return list(dict.fromkeys(self.frame.loc[~self.frame["control"], "attack"]))

    @property
    def controls(self) -> list[str]:
        """Labels of the controls in the order of the frame."""
        return list(dict.fromkeys(self.frame.loc[self.frame["control"], "attack"]))

    def worst_of_control(self, metric: str) -> tuple[str, int] | None:
        """(control, row) with the largest leak that a judge credits to a control, whatever the recipe."""
        measured = self.frame.loc[self.frame["control"] & self.frame[metric].notna(), metric]
        if not len(measured):
            return None
        row = (metric_of(metric).sign * measured).idxmax()
        return str(self.frame.loc[row, "attack"]), int(row)

    @property
    def deciding(self) -> str:
        """`primary`, which is there where a leak was measured. Raises ValueError where none was."""
        return present(self.primary, "leak")

    @property
    def compared(self) -> Evidence:
        """`evidence`, which is there where a leak was measured. Raises ValueError where none was."""
        return present(self.evidence, "leak")

    @property
    def evidence(self) -> Evidence | None:
        """What can be told of the recipes by the primary metric, None where it was never measured."""
        return None if self.primary is None else self.evidence_by(self.primary)

    def evidence_by(self, metric: str) -> Evidence | None:
        """What any leak metric tells of the recipes, each under the attack that works best by that metric."""
        return self._gathered(metric, worst_by=metric)

    def _gathered(self, metric: str, *, worst_by: str) -> Evidence | None:
        key = metric, worst_by
        if key not in self._evidence:
            told = metric in self.measured and self.is_told(metric)
            self._evidence[key] = self.gather_worst(metric, worst_by) if told else None
        return self._evidence[key]

    def compare(self, metric: str, row: int, reference: int) -> Comparison:
        """Two rows of the frame, paired by seed and class, corrected for as many recipes as the deciding metric has."""
        evidence = self._gathered(metric, worst_by=self.primary or metric)
        return NOTHING if evidence is None else self.between_rows(evidence, row, reference)

    def reduction(self, metric: str, recipe: str, reference: str) -> LeakComparison | None:
        """How much less a recipe leaks than a reference by a leak metric, each under its strongest attack. None where
        one of them has not met every attack under the seeds that all share."""
        evidence = self.evidence_by(metric)
        return None if evidence is None else evidence.reduction(recipe, reference)

    def verdict(self, recipe: str, metric: str | None = None) -> LeakComparison | None:
        """A recipe beside the baseline, by default by the metric that decides: what every output shows of it. None for
        a baseline itself, and where the two were not compared."""
        reference, by = self.references.get(recipe), metric or self.primary
        return None if reference in (None, recipe) or by is None else self.reduction(by, recipe, reference)

    @property
    def references(self) -> dict[str, str]:
        """Recipe -> the baseline that it is compared with, where there is one; several settings have several."""
        if "reference_recipe" not in self.frame:
            return {}
        compared = self.frame["reference_recipe"].notna() & ~self.frame["control"]
        known = self.frame.loc[compared, ["recipe", "reference_recipe"]]
        return dict(zip(known["recipe"], known["reference_recipe"], strict=True))


def summarise(data: ReportData, *, level: float = 0.95, resamples: int = 2000, seed: int = 0) -> Summary:
    """The cells of `data`, and the metric that decides between them."""
    cells, primary = cells_of(data, Settings(level=level, resamples=resamples, seed=seed))
    frame = cells.frame
    measured = _measured(frame)
    references = _references(trials_by_cell(data.results, data.axes), data)
    if len(frame):
        named = [None if row is None else frame.loc[row, "recipe"] for row in references]
        frame = cells.with_differences(references, primary).assign(reference_recipe=named)
    of_cells: dict[str, Any] = {field.name: getattr(cells, field.name) for field in fields(cells)} | {"frame": frame}
    return Summary(
        **of_cells,
        axes=data.axes,
        primary=primary,
        measured=measured,
        judged_classes=data.judged_classes,
        defenses=_defenses(data, frame),
        accuracy_margin=data.accuracy_margin,
        by_setting=compares_settings(frame, data.axes, data.baseline),
    )


def cells_of(data: ReportData, settings: Settings) -> tuple[Cells, str | None]:
    """The cells of `data` without their differences, and the metric that decides between them."""
    groups = trials_by_cell(data.results, data.axes)
    every = tuple(collect(trials, data.per_class, data.real_images) for trials in groups.values())
    samples = every if data.looks is None else tuple(_of_seeds(seeds, data.looks.of_look(0)) for seeds in every)
    cell_of = zip(groups.items(), every, strict=True)
    frame = pd.DataFrame([_row(key, trials, seeds, data, settings) for (key, trials), seeds in cell_of])
    baselines = set(frame.loc[frame["is_baseline"], "recipe"]) if len(frame) else set()
    cells = Cells(
        frame=frame,
        samples=samples,
        settings=settings,
        min_test_acc=data.min_test_acc,
        baseline_recipe=baselines.pop() if len(baselines) == 1 else None,
        looks=data.looks,
        all_samples=every,
        people=data.people,
        checks=_checks(data, frame),
    )
    measured = _measured(frame)
    leaks = [key for key in measured if metric_of(key).is_leak]
    asked = [data.primary] if data.primary else []
    decides = (key for key in (*asked, *CLASS_METRICS, *leaks) if key in measured and cells.is_told(key))
    return cells, next(decides, None)


def _checks(data: ReportData, frame: pd.DataFrame) -> Checks:
    """The judges by what each says of real photographs where it does worst, beside the mean accuracy of the targets."""
    if not len(frame):
        return {}
    known = frame[[*BY_KEY]].min().to_dict() | {"test_acc": frame["test_acc"].mean()}
    return judge_checks(known, people=data.people, images=data.real_images)


def _measured(frame: pd.DataFrame) -> tuple[str, ...]:
    return tuple(spec.key for spec in METRICS if len(frame) and frame[spec.key].notna().any())


def _of_seeds(samples: Mapping[str, Seeds], seeds: Sequence[int]) -> dict[str, Seeds]:
    """The samples of these seeds, of every metric."""
    return {
        metric: {seed: sample for seed, sample in mine.items() if seed in seeds} for metric, mine in samples.items()
    }


def _references(groups: Mapping[Key, Any], data: ReportData) -> list[int | None]:
    """The row that each row is compared with, None for a baseline itself and where there is none."""
    place = {key: row for row, key in enumerate(groups)}
    rows = [place.get(_reference_key(key, data)) if data.baseline else None for key in groups]
    return [None if reference == row else reference for row, reference in enumerate(rows)]


def _reference_key(key: Key, data: ReportData) -> Key:
    named = {name: hashable(value) for name, value in data.baseline.items()}
    return tuple(named.get(axis.key, value) for axis, value in zip(data.axes, key, strict=True))


def _defenses(data: ReportData, frame: pd.DataFrame) -> dict[str, Defended]:
    others = [axis for axis in data.axes if not axis.defense]
    needed = dict.fromkeys(("recipe", "trials", *(axis.key for axis in others)))
    defenses = {}
    for row in frame.filter(list(needed)).to_dict("records"):
        defense = data.defenses.get(row["trials"][0])
        if defense is not None and row["recipe"] not in defenses:
            defenses[row["recipe"]] = Defended(words=recipe_words(defense), setting=_label(others, row, "recipe"))
    return defenses


def recipe_label(axes: Sequence[Axis], values: Mapping[str, Any]) -> str:
    """`smoothing -0.2, ramp, epochs 20`: the defense in its own words, among the defender's other axes.

    Axes without a value are left out. A defense without words of its own is named by its axes."""
    return _label(axes, values, "recipe") or "the recipe"


def attack_label(axes: Sequence[Axis], values: Mapping[str, Any]) -> str:
    """`attack loss Poincaré`: the attacker's axes in words; empty where the sweep has none. `UNCHANGED` where it has
    settings of an attack, and this one states none of them."""
    settings = any(axis.role == "attack" and not axis.bare for axis in axes)
    return _label(axes, values, "attack") or (UNCHANGED if settings else "")


def _label(axes: Sequence[Axis], values: Mapping[str, Any], role: str) -> str:
    parameters = [axis for axis in axes if axis.defenses]
    defense = parameters[0].defenses.get(defense_key(parameters, values)) if parameters else None
    mine = [(axis, values[axis.key]) for axis in axes if axis.role == role and not is_null(values.get(axis.key))]
    words = (defense if defense and axis in parameters else axis_words(axis, value) for axis, value in mine)
    return ", ".join(dict.fromkeys(words))  # a defense of several axes is named once


def _row(
    key: Key, trials: pd.DataFrame, samples: Mapping[str, Seeds], data: ReportData, settings: Settings
) -> dict[str, Any]:
    """A cell without its differences."""
    row = _counts(trials, data.axes) | {"is_baseline": bool(data.baseline) and key == _reference_key(key, data)}
    for spec in METRICS:
        interval = estimate(spec, samples[spec.key], settings)
        row |= {f"{spec.key}{end}": value for end, value in zip(("", "_low", "_high", "_n"), interval, strict=False)}
    return row


def _counts(trials: pd.DataFrame, axes: Sequence[Axis]) -> dict[str, Any]:
    values = {axis.key: trials[axis.key].iloc[0] for axis in axes}
    status, first = trials["status"].value_counts(), trials.iloc[0]
    return values | {
        "recipe": recipe_label(axes, values),
        "attack": attack_label(axes, values),
        "access": first.get("attack_access", ACCESS_LEVELS[-1]),
        "control": bool(first.get("attack_control", False)),
        "published": bool(first.get("attack_published", True)),
        "n": int(status.get("done", 0)),
        "failed": int(status.get("failed", 0)),
        "missing": int(status.get("missing", 0)),
        "trials": tuple(trials["trial"]),
    }


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


@lru_cache(maxsize=2)
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
