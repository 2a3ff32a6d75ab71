"""Choose the recipes that figures and tables show, and word their comparisons."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from smoothsweep.core.judges.columns import CLASS_METRICS, metric_of
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
    gap_in_row,
    is_null,
    listing,
    named,
    number,
    points,
    signed_interval,
    start,
)
from smoothsweep.orchestrator.result.summary import UNCHANGED, Summary, decide, hashable

Look = Literal["good", "bad", "unclear", ""]
Shown = dict[str, str]


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
    return settled_by(needed_words(comparison))


def settled_by(needed: str | None) -> str:
    """The same, from those words."""
    how = "would" if needed and needed.startswith("no number") else "might"
    return f"{needed} {how} settle it" if needed else ""


def comparison_columns(verdict: LeakComparison | None, baseline: str | None) -> dict[str, Any]:
    """A recipe beside its baseline as columns; null where the two were not compared."""
    hidden = verdict.hidden if verdict else None
    return {
        "baseline": baseline if verdict else None,
        "verdict": verdict.word if verdict else None,
        "reduction": verdict and verdict.reduction,
        "reduction_low": verdict and verdict.low,
        "reduction_high": verdict and verdict.high,
        "p": verdict and verdict.p,
        "comparisons": verdict and verdict.comparisons,
        "attack_recipe": verdict and verdict.attack,
        "attack_baseline": verdict and verdict.attack_reference,
        "seeds": verdict and verdict.seeds,
        "seeds_needed": verdict and verdict.needed and verdict.needed.seeds,
        "classes_needed": verdict and verdict.needed and verdict.needed.classes,
        "needed": verdict and (needed_words(verdict) or None),
        "claimed": hidden and hidden.claimed,
        "hidden": hidden and hidden.part.value,
        "hidden_low": hidden and hidden.part.low,
        "hidden_high": hidden and hidden.part.high,
        "published": hidden and hidden.published,
        "published_baseline": hidden and hidden.published_baseline,
    }


def row_word(spec: Metric, gap: Comparison) -> Word | None:
    """The word for the reduction of a row beside its baseline's row under its own attack; None without a comparison."""
    if not gap.verdict:
        return None
    return INCONCLUSIVE if gap.verdict == INCONCLUSIVE else LEAKS_MORE if spec.sign * gap.difference > 0 else REDUCES


def hits_in_words(spec: Metric, people: int | None) -> str:
    """What follows a rate in a sentence: ` of its reconstructions are matched among 20 (chance: 5 %)`."""
    if spec.ceiling is None:
        return ""
    if spec.verifies:
        return " of its reconstructions are recognised"
    among = f" among {people} (chance: {number(spec, 1 / people)})" if people else ""
    return f" of its reconstructions are matched{among}"


ACCURACY = metric_of("test_acc")
PLACE = "smoothsweep.orchestrator.result"
"""Where the files of sentences lie."""


NOTHING_LESS = 1e-9
"""Smaller differences of means, with their intervals, count as 0: they come from rounding."""

MANY = 12
"""Recipes up to which figures name and show all, and show pictures of; with more, those that the decision is about."""


LONG = 34
"""Number of letters from which a figure writes a recipe's name in two lines."""


def shown_rows(summary: Summary) -> list[int]:
    """The rows of the frame that get a line of their own in a figure."""
    rows = [int(index) for index in summary.frame.index]
    if len(summary.recipes) <= MANY:
        return rows
    front = decide(summary).front
    chosen = [row for row in rows if summary.cells[row]["is_baseline"] or summary.cells[row]["recipe"] in front]
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


def compared(spec: Metric, row: Mapping[str, Any], key: str = "reduction", word: str = "verdict") -> Shown | None:
    """A comparison in a frame's row as a cell of a table shows it; None without one.

    Returns: `words`, empty where the cell holds no verdict; `look`, the colour; `size`, the reduction or the
    difference; `meaning` of the words, for a tooltip; `settling`, what might settle it.
    """
    said, size = row[word], gap_in_row(spec, row, key)
    if is_null(said):
        return None
    if spec.is_leak:
        wording = WORDING.get(said)
        look, meaning = (wording.look, wording.meaning) if wording else ("", "")
        return as_shown(said, look, size, meaning, settled_by(row.get("needed")))
    value, *ends = (row[f"{key}{end}"] for end in ("", "_low", "_high"))
    if said == INCONCLUSIVE:
        same = all(is_null(one) or abs(one) < NOTHING_LESS for one in (value, *ends))
        return as_shown("", "", "the same") if same else as_shown(said, "unclear", size)
    defended = (said == LOWER) == (spec.better == "low")
    look = "" if spec.better is None else "good" if defended else "bad"
    return as_shown(f"{points(spec, value)} {said}", look, signed_interval(spec, *ends))


def as_shown(words: str, look: Look, size: str, meaning: str = "", settling: str = "") -> Shown:
    """See `compared`."""
    return {"words": words, "look": look, "size": size, "meaning": meaning, "settling": settling}


def gap_columns(summary: Summary, key: str, cell: Mapping[str, Any]) -> dict[str, Any]:
    """A row of the summary's frame beside its baseline by a metric, as columns: of a leak the reduction.

    The verdict on a leak belongs to a recipe. Where several attacks were tried, a row has only its own reduction.
    """
    gap, spec = summary.gap(cell["row"], key), metric_of(key)
    if spec.is_leak and len(summary.attacks) == 1 and not cell["control"]:
        verdict = summary.verdict(cell["recipe"], key)
        if verdict is not None:
            return as_gap(key, verdict)
    if not gap.verdict:
        return as_gap(key, None)
    if spec.is_leak:
        own = cell["reference_recipe"] == cell["recipe"]
        told = (*reduction_of(spec, gap).values(), (row_word(spec, gap) if own else "") or "")
    else:
        told = (gap.difference, gap.low, gap.high, gap.verdict)
    return dict(zip((f"{key}{end}" for end in GAP), told, strict=True))


def reduction_of(spec: Metric, gap: Comparison) -> dict[str, float]:
    """A row's difference from its baseline's row under its own attack as a reduction of the leak, as columns."""
    low, high = sorted((-spec.sign * gap.low, -spec.sign * gap.high))
    return {"reduction": -spec.sign * gap.difference, "reduction_low": low, "reduction_high": high}


def as_gap(key: str, of: LeakComparison | None) -> dict[str, Any]:
    """A comparison of recipes by a leak as such columns; nulls without one."""
    told = (None,) * 4 if of is None else (of.reduction, of.low, of.high, of.word)
    return dict(zip((f"{key}{end}" for end in GAP), told, strict=True))


GAP = ("_gap", "_gap_low", "_gap_high", "_word")


def by_concern(summary: Summary, most: int) -> list[str]:
    """The compared recipes by rising leak; of more than `most` those that the decision is about: the choice and the
    baseline first, then the frontier, then what may leak as little, then others that are accurate enough."""
    evidence = summary.compared
    choice = evidence.recommendation
    ranked = sorted(evidence.values, key=lambda recipe: evidence.sign * evidence.mean(recipe))
    parts = ((choice.best, summary.baseline_recipe), decide(summary).front, choice.runners_up, choice.allowed)
    kept = sorted(ranked, key=lambda recipe: [recipe not in part for part in parts])[:most]
    return [recipe for recipe in ranked if recipe in kept]


INTEGRITY = ("robust_acc", "backdoor_success", "backdoor_collapsed", "membership_auc")
KNOWLEDGE = "xi_train"
"""The knowledge-extraction metric that tables show: that of the training split, as in the paper's tables."""
KEY_METRICS = ("test_acc", "embedder_acc1", "attack_acc1", KNOWLEDGE, "dist_face", *INTEGRITY)
"""The metrics of the first table; the rest follow in the table of everything measured."""


def shown_metrics(summary: Summary) -> list[str]:
    """The metrics of the first table: the measured key metrics, and the one that decides."""
    keys = [key for key in KEY_METRICS if key in summary.measured]
    if summary.primary and summary.primary not in keys:
        keys.insert(1 if keys[:1] == ["test_acc"] else 0, summary.primary)
    return keys


NAMED = 4
"""The most incomplete recipes that a sentence names; the others are counted."""


def incomplete_lines(summary: Summary) -> tuple[str, ...]:
    """Sentences on judges that can tell no leak, on recipes that lack an attack or a seed, and on attacks that never
    ran; empty if complete."""
    blind = untold(summary.checks)
    if summary.primary is None:
        return blind
    if summary.by_setting:
        planned = {row: cell["n"] + cell["missing"] + cell["failed"] for row, cell in summary.cells.items()}
        short = {row: cell for row, cell in summary.cells.items() if cell["n"] < planned[row]}
        lacking = listing(
            f"{named(setting_name(summary, cell))} ({cell['n']} of {planned[row]} seeds)" for row, cell in short.items()
        )
        return (*blind, f"Not finished: {lacking}.") if short else blind
    cases = summary.cases(summary.primary)
    return (*blind, *incomplete_sentences(cases, planned=summary.attacks))


def incomplete_sentences(
    cases: CompleteCases, *, planned: Sequence[str], words: Mapping[str, str] | None = None
) -> tuple[str, ...]:
    """Sentences on the recipes and attacks that `cases` leaves incomplete.

    planned: every attack of the sweep, whether it ran or not. words: name in `cases` -> label in sentences; None where
    the names are labels.
    """
    lines, labels = [], words or {}

    def seeds_of(seeds: Sequence[int]) -> str:
        return f"seed{'s' if len(seeds) > 1 else ''} {listing(map(str, seeds))}"

    def lacks(lacking: Mapping[str, Sequence[int]]) -> str:
        """A phrase such as `lacks Poincaré: seeds 41 and 42`."""
        of_attacks = ((labels.get(attack, attack), seeds_of(seeds)) for attack, seeds in lacking.items())
        return f"lacks {'; '.join(': '.join(filter(None, part)) for part in of_attacks)}"

    if cases.missing and cases.attacks:
        first = list(cases.missing.items())[:NAMED]
        sentences = [f"{named(labels.get(recipe, recipe))} ({lacks(lacking)})" for recipe, lacking in first]
        rest = len(cases.missing) - len(sentences)
        names = listing([*sentences, count(rest, "other recipe")] if rest else sentences)
        lines.append(f"Incomplete, and so compared with no other recipe: {names}.")
    if cases.unused:
        verb, them = ("is", "it") if len(cases.unused) == 1 else ("are", "them")
        lines.append(
            f"{start(seeds_of(cases.unused))} {verb} left out, since too few recipes have results of every attack "
            f"under {them} so far."
        )
    unmet = [attack for attack in planned if attack not in cases.attacks]
    if unmet and cases.attacks:
        names = listing(labels.get(attack, attack) for attack in unmet)
        lines.append(f"No recipe has results of {names} yet; no statement here covers it.")
    return tuple(lines)


SETTING_WORDS = {REDUCES: "finds less", LEAKS_MORE: "finds more", INCONCLUSIVE: INCONCLUSIVE}
"""Verdict on a recipe -> verdict on a setting, which may belong to the attacker."""

SETTING_LEGEND = "reduction: leak under the baseline's setting minus that under this one; positive finds less"
"""Explanation of the sign, for the foot of a table."""


def setting_answer(summary: Summary) -> tuple[str, ...]:
    """Sentences on the baseline's leak, the settings that differ significantly, and the inconclusive ones."""
    spec, cells = summary.spec, summary.cells
    [baseline] = [row for row, cell in cells.items() if cell["is_baseline"]]
    words = {row: word for row in cells if (word := row_word(spec, summary.gap(row, spec.key)))}
    unit = " points" if spec.unit == "percent" else ""
    clear = [
        f"{named(setting_name(summary, cells[row]))} {SETTING_WORDS[word]}: {summary.value_text(row)}, "
        f"reduction {gap_in_row(spec, reduction_of(spec, summary.gap(row, spec.key)))}{unit}"
        for row, word in words.items()
        if word != INCONCLUSIVE
    ]
    unclear = sum(word == INCONCLUSIVE for word in words.values())
    first = (
        f"This sweep compares settings with {named(setting_name(summary, cells[baseline]))}: "
        f"{summary.value_text(baseline)}{hits_in_words(spec, summary.people)}"
    )
    if not clear:
        return (f"{first}. No other is distinguishable from it.",)
    verb = "is" if unclear == 1 else "are"
    rest = (f"{start(count(unclear, 'setting'))} {verb} inconclusive.",) if unclear else ()
    return f"{first}. {start('; '.join(clear))}.", *rest


SHORT = 6
"""Recipes of the first screen's table."""


def screen_facts(summary: Summary) -> dict[str, Any]:
    """What figures and tables show: the recipes with pictures, those with a line of their own, the first screen's."""
    judges = [key for key in CLASS_METRICS if key in summary.measured]
    if summary.primary and summary.primary not in judges:
        judges.insert(0, summary.primary)
    pictured = summary.recipes
    if len(pictured) > MANY and summary.evidence is not None:
        pictured = by_concern(summary, MANY)
    spec = first_measured(summary)
    return {
        "metrics": summary.measured,
        "key_metrics": tuple(shown_metrics(summary)),
        "judges": tuple(judges),
        "first_metric": None if spec is None else spec.key,
        "pictured": tuple(pictured),
        "lines": tuple(shown_rows(summary)),
        "first_screen": tuple(map(int, first_rows(summary))),
    }


def first_measured(summary: Summary) -> Metric | None:
    """The metric of the first screen: the leak that decides, else the first measured metric; None without any."""
    if summary.primary is not None:
        return summary.spec
    known = (metric_of(key) for key in INTEGRITY if key in summary.measured)
    return next((spec for spec in known if spec.better), None)


def first_rows(summary: Summary) -> Sequence[int]:
    """The rows of the first screen, by rising leak: recipes that the decision is about, under their worst attacks."""
    evidence = None if summary.by_setting else summary.evidence
    if evidence is None:
        spec = first_measured(summary)
        if spec is not None:
            rows = summary.frame[summary.frame[spec.key].notna()]
        else:  # nothing tells the attacks on a recipe apart yet
            rows = summary.frame if summary.by_setting else summary.frame.drop_duplicates("recipe")
        return list(rows.index[: 2 * SHORT])
    return [evidence.rows[recipe] for recipe in by_concern(summary, SHORT)]
