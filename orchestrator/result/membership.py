"""Two leaks of every recipe: model inversion, and membership inference."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from smoothsweep.core.judges.columns import BY_KEY, metric_of
from smoothsweep.core.membership.measuring import BY_LABELS, WITH_SHADOWS, WITHOUT
from smoothsweep.core.metrics.intervals import crossed_mean_interval
from smoothsweep.core.metrics.leak_comparisons import LEAKS_MORE, REDUCES, LeakComparison, compare_leaks
from smoothsweep.core.metrics.metric import Metric
from smoothsweep.core.text import NBSP
from smoothsweep.orchestrator.result.data import ReportData
from smoothsweep.orchestrator.result.format import count, is_null, listing, named, number, start
from smoothsweep.orchestrator.result.summary import Summary, recipe_label

WITHIN = "membership_auc_within"
LESS, SCORES_ALONE, MORE, UNCLEAR = "leaks less", "lowers scores alone", "leaks more", "inconclusive"
WORDS = {
    LESS: "both the attacks that see scores and the attack that sees labels alone find less than in the baseline",
    SCORES_ALONE: "attacks that see scores find less; the attack that sees labels alone does not clearly, so that the "
    "membership is hidden, or there is too little data to tell",
    MORE: "an attack finds more than in the baseline, and none finds less",
    UNCLEAR: "no interval leaves out 0, or attacks disagree",
}
"""Word -> what it means, of intervals over seeds and persons for all recipes together."""

ATTACKS = (WITH_SHADOWS, WITHOUT, BY_LABELS)

Cells = Mapping[str, np.ndarray]
"""Attack -> AUC within persons, [seeds, persons]."""


@dataclass(frozen=True, kw_only=True)
class Leaks:
    """One recipe by both leaks.

    Attributes:
        recipe: The recipe's name.
        inversion: Row of the summary's frame under the strongest attack; None where nothing was inverted.
        cells: AUC within persons by attack.
        scores: Reduction relative to the baseline by attacks that see scores; None for the baseline.
        labels: Reduction by the attack that sees labels alone.
    """

    recipe: str
    inversion: int | None
    cells: Cells
    scores: LeakComparison | None = None
    labels: LeakComparison | None = None

    @property
    def word(self) -> str:
        """The verdict relative to the baseline; empty for the baseline itself."""
        if self.scores is None or self.labels is None:
            return ""
        words = {self.scores.word, self.labels.word}
        if LEAKS_MORE in words:
            return UNCLEAR if REDUCES in words else MORE
        if self.scores.word == REDUCES:
            return LESS if self.labels.word == REDUCES else SCORES_ALONE
        return UNCLEAR


@dataclass(frozen=True, kw_only=True)
class TwoLeaks:
    """The recipes of a sweep that measured membership.

    Attributes:
        rows: Recipes in the order of the sweep.
        attacks: Attacks compared, as columns of `Leaks.cells`.
        seeds, persons: How many the intervals are over.
        baseline: The recipe that others are compared with, None without one.
    """

    rows: tuple[Leaks, ...]
    attacks: tuple[str, ...]
    seeds: int
    persons: int
    baseline: str | None

    @property
    def spec(self) -> Metric:
        """The metric by which AUCs are formatted."""
        return metric_of(WITHIN)

    @property
    def sentence(self) -> str:
        """One or two sentences on the finding, for the page and the terminal."""
        leading = self.attacks[0]
        means = {row.recipe: float(row.cells[leading].mean()) for row in self.rows}
        if len(means) == 1:
            [alone] = means.values()
            value_text = number(self.spec, alone)
            return f"Membership within persons, by {title_of(leading)}: {value_text}; 50{NBSP}% is chance."
        highest, lowest = max(means, key=means.__getitem__), min(means, key=means.__getitem__)
        first = (
            f"Membership within persons, by {title_of(leading)}: from {number(self.spec, means[lowest])} "
            f"({named(lowest)}) to {number(self.spec, means[highest])} ({named(highest)}); 50{NBSP}% is chance"
        )
        verdicts = [f"{named(row.recipe)} {row.word}" for row in self.rows if row.word not in ("", UNCLEAR)]
        baseline_text = "" if self.baseline is None else f" beside {named(self.baseline)}"
        return f"{first}. {start(listing(verdicts)) if verdicts else 'No difference is detected'}{baseline_text}."

    def frame(self, summary: Summary) -> pd.DataFrame:
        """One row per recipe: both leaks with intervals, and the reductions by scores and by labels."""
        rows = []
        for row in self.rows:
            columns: dict[str, object] = {"recipe": row.recipe, "seeds": self.seeds, "persons": self.persons}
            cell = None if row.inversion is None else summary.cells[row.inversion]
            for part in ("", "_low", "_high") if summary.primary is not None else ():
                columns[f"inversion{part}"] = None if cell is None else cell[f"{summary.primary}{part}"]
            for attack, cells in row.cells.items():
                auc = crossed_mean_interval(cells, bounds=(0.0, 1.0))
                columns |= {attack: auc.mean, f"{attack}_low": auc.low, f"{attack}_high": auc.high}
            for name, comparison in (("scores", row.scores), ("labels", row.labels)):
                columns |= {
                    f"less_by_{name}": comparison and comparison.reduction,
                    f"less_by_{name}_low": comparison and comparison.low,
                }
                columns |= {
                    f"less_by_{name}_high": comparison and comparison.high,
                    f"less_by_{name}_p": comparison and comparison.p,
                }
            rows.append({**columns, "word": row.word or "baseline"})
        return pd.DataFrame(rows)

    @property
    def sizes(self) -> str:
        """The sample sizes of the intervals, in words."""
        return f"n = {count(self.seeds, 'seed')} and {count(self.persons, 'person')}"


def title_of(attack: str) -> str:
    """The title of a membership attack on pages."""
    return BY_KEY[f"membership_{attack}_auc"].label.removeprefix("membership AUC, ")


def two_leaks(data: ReportData, summary: Summary) -> TwoLeaks | None:
    """Both leaks of every recipe; None where no membership was measured, or not for every class."""
    tables = _tables(data)
    if not tables:
        return None
    attacks = tuple(name for name in ATTACKS if all(name in under for under in tables.values()))
    shared = sorted(set.intersection(*(set(next(iter(under.values()))) for under in tables.values())))
    if not attacks or not shared:
        return None
    cells = {
        recipe: {name: np.array([under[name][seed] for seed in shared]) for name in attacks}
        for recipe, under in tables.items()
    }
    baseline = summary.baseline_recipe if summary.baseline_recipe in cells else None
    by_scores = _compared(cells, [name for name in attacks if name != BY_LABELS], baseline)
    by_labels = _compared(cells, [name for name in attacks if name == BY_LABELS], baseline)
    worst = summary.worst(summary.primary) if summary.primary is not None else {}
    rows = tuple(
        Leaks(
            recipe=recipe,
            inversion=worst.get(recipe),
            cells=mine,
            scores=by_scores.get(recipe),
            labels=by_labels.get(recipe),
        )
        for recipe, mine in cells.items()
    )
    persons = next(iter(rows[0].cells.values())).shape[1]
    return TwoLeaks(rows=rows, attacks=attacks, seeds=len(shared), persons=persons, baseline=baseline)


def _tables(data: ReportData) -> dict[str, dict[str, dict[int, list[float]]]]:
    """Recipe -> attack -> seed -> AUC of every person; every attacked target counts once."""
    tables: dict[str, dict[str, dict[int, list[float]]]] = {}
    if data.per_class is None or WITHIN not in data.results:
        return tables
    by_trial = dict(iter(data.per_class.sort_values("class").groupby("trial")))
    done = data.results[data.results[WITHIN].notna()]
    for row in done.to_dict("records"):
        rows = by_trial.get(row["trial"])
        for name in ATTACKS if rows is not None else ():
            column = f"membership_{name}"
            if rows is not None and column in rows and not rows[column].isna().any():
                mine = tables.setdefault(recipe_label(data.axes, row), {}).setdefault(name, {})
                mine.setdefault(int(row["seed"]), rows[column].astype(float).tolist())
    return tables


def _compared(cells: Mapping[str, Cells], attacks: Sequence[str], baseline: str | None) -> dict[str, LeakComparison]:
    """Compare every recipe with the baseline, each under the strongest of these attacks."""
    if baseline is None or not attacks or len(cells) < 2:
        return {}
    leaks = {recipe: {name: mine[name] for name in attacks} for recipe, mine in cells.items()}
    return compare_leaks(leaks, baseline=baseline, span=1.0, every_pair=False).verdicts


def warnings_of(data: ReportData) -> tuple[str, ...]:
    """Cautions on the numbers of membership, one sentence each."""
    results, lines = data.results, []
    if "membership_copies" in results and (results["membership_copies"].fillna(0) > 0).any():
        most = int(results["membership_copies"].max())
        copies = "is a copy of a training image and was" if most == 1 else "are copies of training images and were"
        lines.append(f"{count(most, 'test image')} {copies} left out.")
    if "membership_shift" in results:
        shift = results["membership_shift"].dropna()
        if len(shift) and not is_null(shift.max()) and float((shift - 0.5).abs().max()) > SHIFTED:
            spec = metric_of("membership_shift")
            lines.append(
                f"A classifier that never asks the target tells training from test images with an AUC of "
                f"{number(spec, float(shift.max()))}: they differ in more than membership, and no claim can be made."
            )
    return tuple(lines)


SHIFTED = 0.12
"""Distance of the label-free classifier's AUC from .5 from which training and test images are taken to differ."""
