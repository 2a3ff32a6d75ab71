"""What a leak stands beside: chance, control, reach, ceiling and membership; later looks and fresh seeds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
import pandas as pd

from smoothsweep.core.checks import present
from smoothsweep.core.judges.columns import BY_KEY, CLOSED_SET, METRICS, REACH_IMAGES, metric_of
from smoothsweep.core.membership.measuring import BY_LABELS, WITH_SHADOWS, WITHOUT
from smoothsweep.core.metrics.comparisons import Reaudit, reaudit
from smoothsweep.core.metrics.intervals import crossed_mean_interval, photographs_interval
from smoothsweep.core.metrics.leak_comparisons import LEAKS_MORE, REDUCES, LeakComparison, compare_leaks
from smoothsweep.core.metrics.metric import Metric
from smoothsweep.core.metrics.verdicts import HIGHER, INCONCLUSIVE
from smoothsweep.core.text import NBSP
from smoothsweep.orchestrator.result.cells import Stop
from smoothsweep.orchestrator.result.data import Measured, ReportData
from smoothsweep.orchestrator.result.estimates import LEVEL, rates, rows_by_trial
from smoothsweep.orchestrator.result.format import (
    count,
    difference,
    estimate,
    gap,
    is_null,
    listing,
    named,
    number,
    points,
    start,
)
from smoothsweep.orchestrator.result.summary import Summary, decide, recipe_label, summarise

SHORT = 0.8
"""Fraction of the ceiling: a reach below it limits what an attack can show."""
APART = 0.2
"""Difference between two judges from which on they are said to disagree."""
FIRST = "verified_far1"


NOT_MEASURED = Measured()


@dataclass(frozen=True, kw_only=True)
class Standing:
    """One way of judging one attack's reconstructions.

    Attributes:
        words: What a hit is called.
        told: Whether a leak can be told by this judge; no sentence rests on another.
    """

    metric: str
    words: str
    told: bool
    leak: Measured
    chance: Measured
    control: Measured
    reach: Measured
    ceiling: Measured

    @property
    def spec(self) -> Metric:
        """The metric of the leak."""
        return metric_of(self.metric)

    @property
    def numbers(self) -> dict[str, Measured]:
        """Name -> number, in the order of every table."""
        return {name: getattr(self, name) for name in HEAD}

    def value_text(self, name: str) -> str:
        """One of the numbers for a table, empty where it was not measured."""
        number = self.numbers[name]
        return "" if number.value is None else estimate(self.spec, *number[:3])

    @property
    def row(self) -> dict[str, Any]:
        """Its columns in the frame `judges`."""
        row: dict[str, Any] = {"metric": self.metric, "hit": self.words, "is_told": self.told}
        for name, found in self.numbers.items():
            row |= {name: found.value, f"{name}_low": found.low, f"{name}_high": found.high}
        return row


HEAD = ("leak", "chance", "control", "reach", "ceiling")


def standings(summary: Summary, row: int, control: int | None, people: int | None) -> tuple[Standing, ...]:
    """A row of the summary's frame by every judge that measured it. control: the control's row, None without one;
    people: of the private data, None where not known."""

    def at(place: int | None, key: str) -> Measured:
        if place is None or key not in BY_KEY or key not in summary.frame:
            return NOT_MEASURED
        value, low, high = (None if is_null(end) else float(end) for end in summary.estimate(place, key)[:3])
        # The same under every seed: that is no width.
        return Measured(value) if low == high else Measured(value, low, high)

    def reached(spec: Metric) -> Measured:
        """With Wilson's interval over photographs, since it is the same in every trial."""
        value = None if spec.reach is None else at(row, spec.reach).value
        images = None if spec.reach is None or value is None else at(row, REACH_IMAGES[spec.reach]).value
        if value is None or not images:
            return Measured(value)
        return Measured(value, *photographs_interval(value, round(images), LEVEL))

    entries = []
    for spec in METRICS:
        closed, verifies = spec.key in CLOSED_SET, spec.verifies or spec.chance is not None
        if spec.key not in summary.measured or not (closed or verifies) or at(row, spec.key).value is None:
            continue
        guess = None if people is None else 1 / people
        entries.append(
            Standing(
                metric=spec.key,
                words=f"matched among {people or 'them'} ({spec.label})" if closed else spec.label,
                told=summary.is_told(spec.key),
                leak=at(row, spec.key),
                chance=Measured(spec.chance if verifies else guess),
                control=at(control, spec.key),
                reach=reached(spec),
                ceiling=at(row, spec.ceiling or f"{spec.key}_real"),
            )
        )
    return tuple(entries)


SEES = {
    "none": "nothing of the target",
    "labels": "the decided class alone",
    "scores": "scores without gradients",
    "gradients": "gradients",
}
"""Access level -> what such an attacker sees."""


def recipe_standings(summary: Summary) -> dict[int, tuple[Standing, ...]]:
    """Row of the baseline, then of the recipe that leaks least, each under the attack that works best against it -> its
    standings by judges that have anything to hold it against; empty where no recipes are compared."""
    if summary.primary is None or summary.by_setting:
        return {}
    choice, found = decide(summary), {}
    for row in dict.fromkeys(row for row in (choice.reference, choice.best) if row is not None):
        judged = standings(summary, row, control_of(summary, row), summary.people)
        found[row] = tuple(one for one in judged if any(one.numbers[name].value is not None for name in HEAD[1:]))
    return {row: judged for row, judged in found.items() if judged}


def control_of(summary: Summary, row: int) -> int | None:
    """The row of the control with the largest leak by the deciding judge, for the recipe of `row`; may be None."""
    frame, metric = summary.frame, summary.deciding
    same = frame["control"] & (frame["recipe"] == summary.cells[row]["recipe"]) & frame[metric].notna()
    return int((summary.spec.sign * frame.loc[same, metric]).idxmax()) if same.any() else None


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


def title_of(attack: str) -> str:
    """The title of a membership attack on pages."""
    return BY_KEY[f"membership_{attack}_auc"].label.removeprefix("membership AUC, ")


@lru_cache(maxsize=2)
def membership_frame(data: ReportData, summary: Summary) -> pd.DataFrame | None:
    """One row per recipe: both leaks with intervals, and how much less attacks that see scores, and the one that sees
    labels alone, find than in the baseline. None where no membership was measured, or not for every class."""
    tables = _tables(data)
    attacks = tuple(name for name in ATTACKS if tables and all(name in under for under in tables.values()))
    seeds = set.intersection(*(set(next(iter(under.values()))) for under in tables.values())) if tables else set()
    if not attacks or not seeds:
        return None
    cells = {
        recipe: {name: np.array([under[name][seed] for seed in sorted(seeds)]) for name in attacks}
        for recipe, under in tables.items()
    }
    by_scores = _compared(cells, [name for name in attacks if name != BY_LABELS], summary.baseline_recipe)
    by_labels = _compared(cells, [name for name in attacks if name == BY_LABELS], summary.baseline_recipe)
    worst = summary.worst(summary.primary) if summary.primary is not None else {}
    rows = []
    for recipe, mine in cells.items():
        columns: dict[str, object] = {"recipe": recipe, "seeds": len(seeds), "persons": mine[attacks[0]].shape[1]}
        cell = summary.cells[worst[recipe]] if recipe in worst else None
        for part in ("", "_low", "_high") if summary.primary is not None else ():
            columns[f"inversion{part}"] = None if cell is None else cell[f"{summary.primary}{part}"]
        for attack in attacks:
            auc = crossed_mean_interval(mine[attack], bounds=(0.0, 1.0))
            columns |= {attack: auc.mean, f"{attack}_low": auc.low, f"{attack}_high": auc.high}
        found = {"scores": by_scores.get(recipe), "labels": by_labels.get(recipe)}
        for name, comparison in found.items():
            columns[f"less_by_{name}"] = comparison and comparison.reduction
            columns |= {
                f"less_by_{name}_{end}": comparison and getattr(comparison, end) for end in ("low", "high", "p")
            }
        words = {one.word for one in found.values() if one is not None}
        if None in found.values():
            word = "baseline"
        elif LEAKS_MORE in words:
            word = UNCLEAR if REDUCES in words else MORE
        elif by_scores[recipe].word == REDUCES:
            word = LESS if by_labels[recipe].word == REDUCES else SCORES_ALONE
        else:
            word = UNCLEAR
        rows.append({**columns, "word": word})
    return pd.DataFrame(rows)


def membership_sentence(frame: pd.DataFrame, summary: Summary) -> str:
    """One or two sentences on the finding, for the page and the terminal. frame: as `membership_frame` gives it."""
    leading, spec = next(name for name in ATTACKS if name in frame), metric_of(WITHIN)
    means = dict(zip(frame["recipe"], frame[leading], strict=True))
    first = f"Membership within persons, by {title_of(leading)}:"
    if len(means) == 1:
        return f"{first} {number(spec, frame[leading].iloc[0])}; 50{NBSP}% is chance."
    ends = (pick(means, key=means.__getitem__) for pick in (min, max))
    lowest, highest = (f"{number(spec, means[recipe])} ({named(recipe)})" for recipe in ends)
    told = zip(frame["recipe"], frame["word"], strict=True)
    verdicts = [f"{named(recipe)} {word}" for recipe, word in told if word not in ("baseline", UNCLEAR)]
    beside = f" beside {named(str(summary.baseline_recipe))}" if summary.baseline_recipe in means else ""
    what = start(listing(verdicts)) if verdicts else "No difference is detected"
    return f"{first} from {lowest} to {highest}; 50{NBSP}% is chance. {what}{beside}."


def _tables(data: ReportData) -> dict[str, dict[str, dict[int, list[float]]]]:
    """Recipe -> attack -> seed -> AUC of every person; every attacked target counts once."""
    tables: dict[str, dict[str, dict[int, list[float]]]] = {}
    if data.per_class is None or WITHIN not in data.results:
        return tables
    by_trial = rows_by_trial(data.per_class)
    for row in data.results[data.results[WITHIN].notna()].to_dict("records"):
        rows = by_trial.get(row["trial"])
        for name in ATTACKS if rows is not None else ():
            column = f"membership_{name}"
            if rows is not None and column in rows and not rows[column].isna().any():
                mine = tables.setdefault(recipe_label(data.axes, row), {}).setdefault(name, {})
                mine.setdefault(int(row["seed"]), rows[column].astype(float).tolist())
    return tables


def _compared(
    cells: Mapping[str, Mapping[str, np.ndarray]], attacks: Sequence[str], baseline: str | None
) -> dict[str, LeakComparison]:
    """Compare every recipe with the baseline, each under the strongest of these attacks. cells: recipe -> attack -> AUC
    within persons, [seeds, persons]."""
    if baseline not in cells or not attacks or len(cells) < 2:
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


SPENT = {"pocock": "Pocock", "obrien-fleming": "O'Brien and Fleming"}


def look_words(summary: Summary, stop: Stop) -> str:
    """A phrase such as `decided at look 1 of 3 (3 seeds)`."""
    looks = present(summary.looks, "looks")
    where = f"look {stop.look} of {len(looks.looks)} ({count(stop.comparison.seeds, 'seed')})"
    if stop.answer == "small":
        return f"smaller than {points(summary.spec, looks.smallest)} either way at {where}"
    return {"told": f"decided at {where}", "open": f"open after {where}", "undecided": f"undecided after {where}"}[
        stop.answer
    ]


def look_sentences(summary: Summary) -> tuple[str, ...]:
    """Sentences on the looks, one per recipe, and on recipes that could not be tested; empty without looks."""
    if summary.looks is None or summary.primary is None:
        return ()
    looks, last = summary.looks, summary.stops(summary.primary)
    shares = [f"{100 * error:.2g}\u00a0%" for error in looks.design.errors]
    errors = shares[0] if len(set(shares)) == 1 else f"{listing(shares)}, one after the other"
    first = (
        f"Every recipe was compared with the baseline at {looks.looks[0]} seeds, those still undecided again at "
        f"{listing(map(str, looks.looks[1:]))}, each time with an error of {errors} "
        f"({100 * looks.alpha:g}\u00a0% in all, {SPENT[looks.spend]}). These intervals hold although seeds were added."
        if len(looks.looks) > 1
        else f"There is one look, at {looks.looks[0]} seeds."
    )
    lines = [first]
    for recipe, stop in last.items():
        reduction = gap(summary.spec, stop.comparison.reduction, stop.comparison.low, stop.comparison.high)
        lines.append(start(f"{named(recipe)}: {look_words(summary, stop)}, reduction {reduction}."))
    missing = [recipe for recipe in summary.recipes if recipe not in last and recipe != summary.baseline_recipe]
    if missing:
        lines.append(f"Not asked yet, since seeds of the first look are missing: {listing(map(named, missing))}.")
    return tuple(lines)


Leaks = dict[str, np.ndarray]
"""Attack -> leak [seeds, classes]; a larger value is a larger leak."""


Fresh = dict[str, Reaudit]
"""Recipe -> its first against its fresh leak, in the metric's unit, under its strongest attack. Intervals are
simultaneous and account for the choice of the attack."""


@lru_cache(maxsize=2)
def check_reaudit(data: ReportData, summary: Summary) -> tuple[Fresh, tuple[int, ...]]:
    """The recipes that were audited again, and the fresh seeds; empty without any finished second audit."""
    if data.fresh is None or not len(data.fresh) or summary.evidence is None:
        return {}, ()
    again = summarise(replace(data, results=data.fresh, fresh=None, search=None, paper=None))
    pairs = _pairs(summary, again, summary.deciding) if summary.deciding in again.measured else {}
    audits = {recipe: reaudit(*pair, among=len(pairs), level=LEVEL) for recipe, pair in pairs.items()}
    fresh = {recipe: audit.turned if summary.spec.sign < 0 else audit for recipe, audit in audits.items()}
    return fresh, again.cases(summary.deciding).seeds if fresh else ()


def fresh_columns(summary: Summary, audit: Reaudit | None) -> dict[str, Any]:
    """The second audit of a recipe as columns; nulls where it was not audited again."""
    if audit is None:
        return dict.fromkeys(FRESH)
    said = (audit.selected, audit.fresh, audit.bias, audit.low, audit.high, meaning(summary, audit))
    return dict(zip(FRESH, said, strict=True))


FRESH = ("first", "fresh", "fresh_bias", "fresh_low", "fresh_high", "fresh_word")


def fresh_answer(data: ReportData, summary: Summary) -> tuple[str, ...]:
    """One sentence on the second audit for the head of the page; empty where the choice was not audited again."""
    spec, best = summary.spec, summary.compared.recommendation.best
    audit = check_reaudit(data, summary)[0].get(str(best))
    if audit is None:
        return ()
    return (
        f"Checked again: {start(named(str(best)))} leaks {number(spec, audit.fresh)} with fresh seeds, "
        f"{number(spec, audit.selected)} when it was chosen: "
        f"{difference(spec, audit.bias, audit.low, audit.high)}, {meaning(summary, audit)}.",
    )


def meaning(summary: Summary, audit: Reaudit) -> str:
    if audit.low is None:
        return "inconclusive: one seed says nothing of chance"
    if audit.verdict == INCONCLUSIVE:
        return "inconclusive: no more than chance explains"
    was_low = (audit.verdict == HIGHER) == (summary.compared.sign > 0)
    return f"the first audit {'underestimated' if was_low else 'overestimated'} the leak"


def _pairs(summary: Summary, again: Summary, metric: str) -> dict[str, tuple[Leaks, Leaks]]:
    """Recipe -> its leaks in the first and in the fresh audit, under the attacks that both ran and over the classes
    that both have; see `rates`."""
    audits = (summary, again)
    first, fresh = (audit.cases(metric) for audit in audits)
    attacks = [attack for attack in first.attacks if attack in fresh.attacks]
    pairs: dict[str, tuple[Leaks, Leaks]] = {}
    for recipe in (recipe for recipe in first.recipes if recipe in fresh.recipes and attacks):
        samples = [
            audit.samples[dict(audit.attacked[recipe])[attack]][metric][seed]
            for audit, cases in zip(audits, (first, fresh), strict=True)
            for attack in attacks
            for seed in cases.seeds
        ]
        values = metric_of(metric).sign * rates(samples)[0]
        sides = np.split(values, [len(attacks) * len(first.seeds)])
        before, after = (side.reshape(len(attacks), -1, values.shape[1]) for side in sides)
        pairs[recipe] = dict(zip(attacks, before, strict=True)), dict(zip(attacks, after, strict=True))
    return pairs
