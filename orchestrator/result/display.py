"""Choose the recipes that figures and tables show, and word their comparisons."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from smoothsweep.core.judges.columns import CLASS_METRICS, METRICS, metric_of
from smoothsweep.core.metrics.comparisons import is_kept
from smoothsweep.core.metrics.leak_comparisons import HIDES, LEAKS_MORE, REDUCES, LeakComparison, Word
from smoothsweep.core.metrics.metric import Metric
from smoothsweep.core.metrics.power import MOST_SEEDS
from smoothsweep.core.metrics.verdicts import INCONCLUSIVE, LEAST_SEEDS, LOWER
from smoothsweep.orchestrator.result.cells import CompleteCases
from smoothsweep.orchestrator.result.estimates import Comparison, untold
from smoothsweep.orchestrator.result.format import (
    axis_words,
    count,
    difference,
    estimate,
    is_null,
    listing,
    named,
    number,
    points,
    signed,
    signed_interval,
    start,
)
from smoothsweep.orchestrator.result.summary import UNCHANGED, Summary, decide, hashable

Look = Literal["good", "bad", "unclear", ""]


@dataclass(frozen=True, kw_only=True)
class Wording:
    """How a word is shown.

    Attributes:
        meaning: What it says of a recipe beside the baseline; the tooltip of pages, the legend of documents.
        look: Good or bad for the owner of the model, or unclear: the colour on pages.
        as_verb: The predicate of a sentence: "alpha 0.1 ...".
    """

    meaning: str
    look: Look
    as_verb: str


WORDING: Mapping[Word, Wording] = {
    REDUCES: Wording(
        meaning="the strongest attack tried finds less than in the baseline: the whole interval lies above zero",
        look="good",
        as_verb="reduces the leak",
    ),
    HIDES: Wording(
        meaning="published attacks find less than in the baseline, the strongest attack tried does not",
        look="bad",
        as_verb="hides the leak from published attacks",
    ),
    LEAKS_MORE: Wording(
        meaning="the strongest attack tried finds more than in the baseline: the whole interval lies below zero",
        look="bad",
        as_verb="leaks more",
    ),
    INCONCLUSIVE: Wording(
        meaning="the interval holds zero: the numbers are too few, or the difference is too small",
        look="unclear",
        as_verb="is inconclusive",
    ),
}
"""Word -> its text on the terminal, on pages, in PDF, MLflow and JSON."""

LEGEND = "reduction: leak of the baseline minus leak of the recipe; positive leaks less"
"""What the sign means, for the foot of a table."""


def reduction_cell(spec: Metric, comparison: LeakComparison) -> str:
    """`+20.5 [+2, +39]`: a reduction and its interval in a table; percentage points for rates."""
    return f"{signed(spec, comparison.reduction)} {signed_interval(spec, comparison.low, comparison.high)}".strip()


def reduction_words(spec: Metric, comparison: LeakComparison) -> str:
    """`+20.5 points [+2, +39]`: the same in a sentence."""
    return difference(spec, comparison.reduction, comparison.low, comparison.high)


def needed_words(comparison: LeakComparison) -> str:
    """What might settle an inconclusive comparison, with 80 % power: `8 seeds`, `8 seeds x 48 classes` where these are
    more classes than now, or that no number of seeds would; empty where it is settled or nothing is known."""
    if comparison.word != INCONCLUSIVE:
        return ""
    if comparison.seeds < LEAST_SEEDS:
        return f"at least {LEAST_SEEDS} seeds"
    if comparison.needed is None:
        return ""
    if comparison.needed.seeds is None:
        return f"no number of seeds up to {MOST_SEEDS}"
    classes = comparison.needed.classes if comparison.needed.more_classes else None
    more = "" if classes is None else f" x {count(classes, 'class', 'classes')}"
    return f"{count(comparison.needed.seeds, 'seed')}{more}"


def settling(comparison: LeakComparison) -> str:
    """A phrase such as `8 seeds might settle it`, or that no number would; empty where `needed_words` is."""
    needed = needed_words(comparison)
    how = "would" if needed.startswith("no number") else "might"
    return f"{needed} {how} settle it" if needed else ""


def row_reduction(spec: Metric, gap: Comparison) -> tuple[str, Word | None]:
    """The reduction of a row of the frame beside its baseline's row under its own attack, as `reduction_cell`, and the
    word; None where there is nothing to compare."""
    if not gap.verdict:
        return "", None
    value = -spec.sign * gap.difference
    ends = sorted((-spec.sign * gap.low, -spec.sign * gap.high))
    word = INCONCLUSIVE if gap.verdict == INCONCLUSIVE else REDUCES if value > 0 else LEAKS_MORE
    return f"{signed(spec, value)} {signed_interval(spec, *ends)}".strip(), word


def hits_in_words(spec: Metric, people: int | None) -> str:
    """What follows a rate in a sentence: ` of its reconstructions are matched among 20 (chance: 5 %)`."""
    if spec.ceiling is None:
        return ""
    if spec.verifies:
        return " of its reconstructions are recognised"
    among = f" among {people} (chance: {number(spec, 1 / people)})" if people else ""
    return f" of its reconstructions are matched{among}"


SPEC = metric_of("test_acc")


def accuracy_kept(gap: Comparison, margin: float) -> bool:
    """Whether the whole interval of the difference lies above minus the margin."""
    return gap.n > 0 and is_kept(gap.low, gap.high, margin)


def accuracy_gap(gap: Comparison) -> str:
    """A difference as text, such as `-0.6 points [-1.6, +0.5]`."""
    return difference(SPEC, gap.difference, gap.low, gap.high)


def margin_words(margin: float) -> str:
    """A margin as text, such as `1.0 point`."""
    return points(SPEC, margin)


NOTHING_LESS = 1e-9
"""Smaller differences of means, with their intervals, count as 0: they come from rounding."""

MANY = 12
"""Recipes up to which figures name and show all; with more, only the baseline and the recipes on the front."""


SIDE = 12
"""The most recipes that get a column of pictures."""

LONG = 34
"""Number of letters from which a figure writes a recipe's name in two lines."""


def is_crowded(summary: Summary) -> bool:
    """Whether the names of all recipes need more than `MANY` lines in a figure, so that some are not written."""
    return sum(1 + (len(recipe) > LONG) for recipe in summary.recipes) > MANY


def judges_shown(summary: Summary) -> list[str]:
    """The leak metrics that get a panel: the measured hit rates and the metric that decides."""
    judges = [key for key in CLASS_METRICS if key in summary.measured]
    if summary.primary and summary.primary not in judges:
        judges.insert(0, summary.primary)
    return judges


def shown_rows(summary: Summary) -> list[int]:
    """The rows of the frame that get a line of their own in a figure."""
    rows = [int(index) for index in summary.frame.index]
    if len(summary.recipes) <= MANY:
        return rows
    front = decide(summary).front
    chosen = [row for row in rows if summary.frame.loc[row, "is_baseline"] or summary.frame.loc[row, "recipe"] in front]
    return chosen or rows[:MANY]


def setting_name(summary: Summary, cell: Mapping[str, Any]) -> str:
    """The settings of a row that differ from the baseline's, such as `selection target alpha 0.1`.

    The baseline's row has its full name.
    """
    baseline = next(cell for cell in summary.cells.values() if cell["is_baseline"])
    differing = [
        axis_words(axis, cell[axis.key])
        for axis in summary.axes
        if not is_null(cell[axis.key]) and hashable(cell[axis.key]) != hashable(baseline[axis.key])
    ]
    attack = "" if cell["attack"] == UNCHANGED else cell["attack"]
    return ", ".join(differing or [part for part in (cell["recipe"], attack) if part])


def hover(values: Mapping[str, Any], judge: str) -> str:
    """The tooltip of a point: its recipe, accuracy and leak."""
    name = values["recipe"] + (f", {values['attack']}" if values["attack"] else "")
    pieces = [name]
    for key in ("test_acc", judge):
        spec = metric_of(key)
        text = estimate(spec, values[key], values[f"{key}_low"], values[f"{key}_high"])
        pieces.append(f"{spec.label}: {text} (n = {count(int(values[f'{key}_n']), 'seed')})")
    return "\n".join(pieces)


@dataclass(frozen=True, kw_only=True)
class VerdictText:
    """A comparison as a cell of a table shows it.

    Attributes:
        words: The verdict; empty where the cell holds no verdict.
        size: The reduction of the leak, or the interval of another metric's difference.
        needed: How many seeds might settle an inconclusive comparison.
        settling: `needed` as a sentence.
        look: Colour: "good" or "bad" for the owner, "unclear", or "" for none.
        meaning: Explanation of the verdict for a tooltip.
    """

    words: str
    look: Look
    size: str
    needed: str = ""
    settling: str = ""
    meaning: str = ""


def leak_verdict(spec: Metric, comparison: LeakComparison | None) -> VerdictText | None:
    """Word the comparison of a recipe with its reference by a leak; None where the two were not compared."""
    if comparison is None:
        return None
    wording = WORDING[comparison.word]
    return VerdictText(
        words=comparison.word,
        look=wording.look,
        size=reduction_cell(spec, comparison),
        needed=needed_words(comparison),
        settling=settling(comparison),
        meaning=wording.meaning,
    )


def difference_verdict(spec: Metric, gap: Comparison) -> VerdictText | None:
    """Word a difference of a metric that is no leak, such as `1.2 points lower`; None without a comparison."""
    if not gap.verdict:
        return None
    ends = signed_interval(spec, gap.low, gap.high)
    if gap.verdict == INCONCLUSIVE:
        if max(abs(gap.difference), abs(gap.low), abs(gap.high)) < NOTHING_LESS:
            return VerdictText(words="", look="", size="the same")
        return VerdictText(words=INCONCLUSIVE, look="unclear", size=f"{signed(spec, gap.difference)} {ends}".strip())
    defended = (gap.verdict == LOWER) == (spec.better == "low")
    look = "" if spec.better is None else "good" if defended else "bad"
    return VerdictText(words=f"{points(spec, gap.difference)} {gap.verdict}", look=look, size=ends)


def cell_verdict(summary: Summary, spec: Metric, cell: Mapping[str, Any]) -> VerdictText | None:
    """Word the comparison of a row of the summary's frame with its baseline; None without a comparison.

    The verdict on a leak belongs to a recipe. Where several attacks were tried, a row shows only its own reduction.
    """
    gap = summary.gap(cell["row"], spec.key)
    if not spec.is_leak:
        return difference_verdict(spec, gap)
    if len(summary.attacks) == 1 and not cell["control"]:
        verdict = summary.verdict(cell["recipe"], spec.key)
        if verdict is not None:
            return leak_verdict(spec, verdict)
    size, word = row_reduction(spec, gap)
    if word is None:
        return None
    if cell["reference_recipe"] != cell["recipe"]:
        return VerdictText(words="", look="", size=size)
    return VerdictText(words=word, look=WORDING[word].look, size=size)


def recipe_verdict(summary: Summary, spec: Metric, cell: Mapping[str, Any]) -> VerdictText | None:
    """Word the comparison of a row's recipe with the baseline, for a table of recipes; None without one."""
    return (
        leak_verdict(spec, summary.verdict(cell["recipe"], spec.key))
        if spec.is_leak
        else cell_verdict(summary, spec, cell)
    )


def judges_lead(summary: Summary) -> str:
    """Sentences on why there are several judges, and on their hit rates on real images."""
    ceilings = [
        f"the {judge.label} names {number(metric_of(judge.ceiling), summary.frame[judge.ceiling].mean())}"
        for judge in METRICS
        if judge.ceiling in summary.measured and judge.key in summary.measured
    ]
    limit = f" Of real images of these classes, {listing(ceilings)} correctly." if ceilings else ""
    return (
        "The evaluator was trained on the same private images as the target and may accept what only classifiers "
        f"accept; the independent judge's features come from other people. The gap is itself a finding.{limit}"
    )


def chosen_recipes(summary: Summary) -> list[str]:
    """The chosen recipe, its runners-up, the frontier and the baseline, by rising leak; at most `SIDE` recipes."""
    ranked, choice = (
        sorted(summary.compared.compared, key=lambda recipe: summary.spec.sign * summary.compared.mean(recipe)),
        summary.compared.recommendation,
    )
    if len(ranked) <= SIDE:
        return ranked
    first = {choice.best, summary.baseline_recipe}
    wanted = first | {*choice.runners_up, *decide(summary).front}
    chosen = sorted((recipe for recipe in ranked if recipe in wanted), key=lambda recipe: recipe not in first)[:SIDE]
    return [recipe for recipe in ranked if recipe in chosen]


def sheet_recipes(summary: Summary) -> list[str]:
    """The recipes that get a column of pictures: all where they are few, else those that a decision is about."""
    if len(summary.recipes) <= SIDE or summary.evidence is None:
        return summary.recipes
    return chosen_recipes(summary) if summary.evidence.pairs else summary.recipes[:SIDE]


INTEGRITY = ("robust_acc", "backdoor_success", "backdoor_collapsed", "membership_auc")
KNOWLEDGE = "xi_train"
"""The knowledge-extraction metric that tables show: that of the training split, as in the paper's tables."""
KEY_METRICS = ("test_acc", "embedder_acc1", "attack_acc1", KNOWLEDGE, "dist_face", *INTEGRITY)
"""The metrics of the first table; the rest follow in the table of everything measured."""


def too_inaccurate(summary: Summary) -> str:
    """The phrase for a recipe below `min_test_acc`; empty where none is set."""
    floor = summary.min_test_acc
    return "" if floor is None else f"test accuracy below {number(metric_of('test_acc'), floor)}"


def shown_metrics(summary: Summary) -> list[str]:
    """The metrics of the first table: the measured key metrics, and the one that decides."""
    keys = [key for key in KEY_METRICS if key in summary.measured]
    if summary.primary and summary.primary not in keys:
        keys.insert(1 if keys[:1] == ["test_acc"] else 0, summary.primary)
    return keys


def seeds(cell: Mapping[str, Any]) -> str:
    """The seeds of a row as text: `2`, or `2 of 3` where trials failed or are missing."""
    planned = cell["n"] + cell["failed"] + cell["missing"]
    return str(cell["n"]) if planned == cell["n"] else f"{cell['n']} of {planned}"


NAMED = 4
"""The most incomplete recipes that a sentence names; the others are counted."""


def incomplete_lines(summary: Summary) -> tuple[str, ...]:
    """Sentences on judges that can tell no leak, on recipes that lack an attack or a seed, and on attacks that never
    ran; empty if complete."""
    blind = untold(summary.checks)
    if summary.primary is None:
        return blind
    if summary.by_setting:
        return (*blind, *_unfinished_settings(summary))
    cases = summary.cases(summary.primary)
    return (*blind, *incomplete_sentences(cases, planned=summary.attacks))


def _unfinished_settings(summary: Summary) -> tuple[str, ...]:
    """Sentences on settings of an attack that lack seeds."""
    short = [cell for cell in summary.cells.values() if cell["missing"] or cell["failed"]]
    if not short:
        return ()
    lacking = listing(
        f"{named(setting_name(summary, cell))} ({cell['n']} of {cell['n'] + cell['missing'] + cell['failed']} seeds)"
        for cell in short
    )
    return (f"Not finished: {lacking}.",)


def incomplete_sentences(
    cases: CompleteCases, *, planned: Sequence[str], words: Mapping[str, str] | None = None
) -> tuple[str, ...]:
    """Sentences on the recipes and attacks that `cases` leaves incomplete.

    planned: every attack of the sweep, whether it ran or not. words: name in `cases` -> label in sentences; None where
    the names are labels.
    """
    lines, words = [], words or {}
    if cases.missing and cases.attacks:
        sentences = [
            f"{named(words.get(recipe, recipe))} ({_lacks(lacking, words)})"
            for recipe, lacking in list(cases.missing.items())[:NAMED]
        ]
        rest = len(cases.missing) - len(sentences)
        names = listing([*sentences, count(rest, "other recipe")] if rest else sentences)
        lines.append(f"Incomplete, and so compared with no other recipe: {names}.")
    if cases.unused:
        which, them = ("Seed", "it") if len(cases.unused) == 1 else ("Seeds", "them")
        verb = "is" if len(cases.unused) == 1 else "are"
        listed = f"{which} {_listed(cases.unused)} {verb}"
        lines.append(f"{listed} left out, since too few recipes have results of every attack under {them} so far.")
    unmet = [attack for attack in planned if attack not in cases.attacks]
    if unmet and cases.attacks:
        names = listing(words.get(attack, attack) for attack in unmet)
        lines.append(f"No recipe has results of {names} yet; no statement here covers it.")
    return tuple(lines)


def _lacks(lacking: Mapping[str, Sequence[int]], words: Mapping[str, str]) -> str:
    """A phrase such as `lacks Poincaré: seeds 41 and 42`."""
    parts = []
    for attack, seeds in lacking.items():
        which = f"seed{'s' if len(seeds) > 1 else ''} {_listed(seeds)}"
        name = words.get(attack, attack)
        parts.append(f"{name}: {which}" if name else which)
    return f"lacks {'; '.join(parts)}"


def _listed(seeds: Sequence[int]) -> str:
    return listing(str(seed) for seed in seeds)


SETTING_WORDS = {REDUCES: "finds less", LEAKS_MORE: "finds more", INCONCLUSIVE: INCONCLUSIVE}
"""Verdict on a recipe -> verdict on a setting, which may belong to the attacker."""

SETTING_LEGEND = "reduction: leak under the baseline's setting minus that under this one; positive finds less"
"""Explanation of the sign, for the foot of a table."""


def of_setting(summary: Summary, row: int) -> VerdictText | None:
    """Word the comparison of a row with the baseline's by the leak that decides; None for the baseline and without a
    comparison."""
    size, word = row_reduction(summary.spec, summary.gap(row, summary.deciding))
    look = "unclear" if word == INCONCLUSIVE else ""
    return None if word is None else VerdictText(words=SETTING_WORDS[word], look=look, size=size)


def setting_answer(summary: Summary) -> tuple[str, ...]:
    """Sentences on the baseline's leak, the settings that differ significantly, and the inconclusive ones."""
    spec, cells = summary.spec, summary.cells
    [baseline] = [row for row, cell in cells.items() if cell["is_baseline"]]
    readings = {row: reading for row in cells if (reading := of_setting(summary, row))}
    unit = " points" if spec.unit == "percent" else ""
    clear = [
        f"{named(setting_name(summary, cells[row]))} {reading.words}: {summary.value_text(row)}, "
        f"reduction {reading.size}{unit}"
        for row, reading in readings.items()
        if reading.words != INCONCLUSIVE
    ]
    unclear = sum(reading.words == INCONCLUSIVE for reading in readings.values())
    first = (
        f"This sweep compares settings with {named(setting_name(summary, cells[baseline]))}: "
        f"{summary.value_text(baseline)}{hits_in_words(spec, summary.people)}"
    )
    if not clear:
        return (f"{first}. No other is distinguishable from it.",)
    verb = "is" if unclear == 1 else "are"
    rest = (f"{start(count(unclear, 'setting'))} {verb} inconclusive.",) if unclear else ()
    return f"{first}. {start('; '.join(clear))}.", *rest
