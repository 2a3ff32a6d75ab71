"""The columns of a result's frames, each declared once: its unit, what it means, the judge that measures it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from smoothsweep.core.judges.columns import BY_KEY

Unit = Literal["text", "true or false", "count", "number", "fraction", "unit of the leak", "seconds", "list"]


@dataclass(frozen=True)
class Column:
    """A column of a frame. judge: the key of the judge that measures it, None where none does."""

    name: str
    unit: Unit
    meaning: str
    judge: str | None = None


def _declared(unit: Unit, meanings: Mapping[str, str]) -> tuple[Column, ...]:
    return tuple(Column(name, unit, meaning) for name, meaning in meanings.items())


def _with_ends(unit: Unit, meanings: Mapping[str, str]) -> tuple[Column, ...]:
    """Numbers with the columns of their intervals."""
    ends = {"_low": "Lower end of the interval of `{}`.", "_high": "Upper end."}
    return tuple(
        column
        for name, meaning in meanings.items()
        for column in _declared(unit, {name: meaning} | {f"{name}{end}": of.format(name) for end, of in ends.items()})
    )


ENDS = {
    "": "{meaning}",
    "_low": "Lower end of the interval of `{key}`.",
    "_high": "Upper end of the interval of `{key}`.",
    "_n": "Seeds under which `{key}` was measured.",
    "_attack": "The attack that `{key}` is under: of a recipe's leak the one that works best by that judge.",
    "_differs": "Whether `{key}` is distinguishable from the baseline's: the corrected interval leaves out 0.",
    "_gap": "`{key}` beside the baseline's: of a leak the reduction (positive leaks less), else the difference.",
    "_gap_low": "Lower end of the interval of `{key}_gap`.",
    "_gap_high": "Upper end.",
    "_word": "The verdict on `{key}_gap`; empty where it belongs to a recipe and not to this row, null without one.",
}


KINDS: Mapping[str, Unit] = {"_n": "count", "_attack": "text", "_differs": "true or false", "_word": "text"}
"""Units of endings that are not in the metric's own."""


def metric_columns(keys: Iterable[str]) -> tuple[Column, ...]:
    """A metric's mean over the seeds, its interval, how many seeds, and whether it differs from the baseline's."""
    found = []
    for spec in map(BY_KEY.__getitem__, keys):
        unit: Unit = "fraction" if spec.unit == "percent" else "number"
        for end, meaning in ENDS.items():
            kind = KINDS.get(end, unit)
            words = meaning.format(meaning=f"Mean over the seeds. {spec.description}", key=spec.key)
            found.append(Column(f"{spec.key}{end}", kind, words, spec.judge))
    return tuple(found)


RECIPE = Column("recipe", "text", "The report's name of the recipe.")
REDUCTION = _with_ends(
    "unit of the leak",
    {"reduction": "Leak of the baseline minus leak of the recipe: positive leaks less."},
)
FRAMES: dict[str, tuple[Column, ...]] = {
    "recipes": (
        RECIPE,
        Column("attack", "text", "The attack that works best against it by the deciding leak."),
        Column("role", "text", "`baseline`, or empty."),
        Column("n", "count", "Seeds done under that attack."),
        Column("planned", "count", "Seeds planned."),
        Column("on_front", "true or false", "No other recipe that is accurate enough beats it in accuracy and leak."),
        Column("is_accurate", "true or false", "It reaches the test accuracy asked for, if any."),
        Column("baseline", "text", "The recipe that it is compared with."),
        Column("verdict", "text", "The word of the comparison."),
        *REDUCTION,
        Column("p", "fraction", "The largest error at which the interval leaves out 0."),
        Column("comparisons", "count", "Comparisons that the interval is corrected for."),
        Column("attack_recipe", "text", "The attack that works best against it, of those that the comparison is over."),
        Column("attack_baseline", "text", "The attack that works best against the baseline."),
        Column("seeds", "count", "Seeds that the comparison rests on."),
        Column("seeds_needed", "count", "Seeds that might settle an inconclusive comparison; null where none would."),
        Column("classes_needed", "count", "Classes that it would take beside them."),
        Column("needed", "text", "The same in words."),
        Column("claimed", "unit of the leak", "The reduction under published attacks alone."),
        *_with_ends(
            "unit of the leak",
            {"hidden": "What published attacks lose beyond the reduction, because gradients are masked."},
        ),
        Column("published", "text", "The published attack that works best against it."),
        Column("published_baseline", "text", "The published attack that works best against the baseline."),
        Column("look", "text", "At which look it was decided, in a sweep with looks."),
        Column("probability_best", "fraction", "The probability that it leaks least of all that are accurate enough."),
        Column("family", "text", "The kind of its defense: `none` is plain training; null where none is stated."),
        Column("family_place", "count", "Place of that kind in the table of defenses; it has a colour and a mark."),
        Column("number", "number", "Its value, where the recipes differ in one number alone."),
        *_declared(
            "unit of the leak",
            {
                "first": "Its leak in the first audit, where it was audited again with fresh seeds.",
                "fresh": "Its leak under the fresh seeds.",
                "fresh_bias": "Fresh minus first.",
                "fresh_low": "Lower end of the interval of that.",
                "fresh_high": "Upper end.",
            },
        ),
        Column("fresh_word", "text", "What that says of the first audit."),
    ),
    "attacks": (
        RECIPE,
        Column("attack", "text", "The attack's name; empty where the sweep varies none."),
        Column("access", "text", "What it sees of the target."),
        Column("control", "true or false", "It is no attack: what a judge credits to it is no leak."),
        Column("published", "true or false", "It follows gradients as published."),
        Column("is_baseline", "true or false", "The cell that the others are compared with."),
        *_declared("count", {"n": "Seeds done.", "failed": "Seeds failed.", "missing": "Seeds not run yet."}),
        *REDUCTION,
        Column("reduction_n", "count", "Seeds in common with the baseline under the same attack."),
        Column("verdict", "text", "The word of that comparison; the verdict on a leak belongs to a recipe."),
        Column("place", "count", "Recipes from the smallest leak, each with its strongest attack before the others."),
        Column("setting", "text", "What differs from the baseline, in a sweep that compares settings of an attack."),
        Column("trials", "list", "Its trials, one for each seed."),
    ),
    "judges": (
        RECIPE,
        Column("attack", "text", "The attack that works best against the recipe."),
        Column("metric", "text", "The leak."),
        Column("hit", "text", "What a hit is called."),
        Column("is_told", "true or false", "Whether a leak can be told by this judge."),
        *_with_ends(
            "unit of the leak",
            {
                "leak": "Its leak.",
                "chance": "What strangers, or a guess, would reach.",
                "control": "The largest leak that the judge credits to a control.",
                "reach": "The same of real photographs projected into the attacker's prior.",
                "ceiling": "The same of real photographs.",
            },
        ),
    ),
    "people": (
        RECIPE,
        Column("attack", "text", "The attack's name; empty where the sweep varies none."),
        Column("class", "text", "The person."),
        Column("metric", "text", "The leak."),
        *_declared(
            "fraction",
            {
                "share": "Share of reconstructions taken for the person, mean over the seeds.",
                "rate": "That share, shrunk towards the mean of all people.",
                "low": "Lower end of its interval.",
                "high": "Upper end.",
                "among_top": "The probability that the person is one of the five most exposed.",
            },
        ),
    ),
    "membership": (
        RECIPE,
        *_declared("count", {"seeds": "Seeds of the intervals.", "persons": "Persons of the intervals."}),
        Column("word", "text", "The verdict on membership beside the baseline."),
    ),
    "published": (
        *_declared("text", {"table": "The paper's table.", "dataset": "Its data set."}),
        Column("paper_row", "count", "Position in the table."),
        RECIPE,
        Column("attack", "text", "The attack's name; empty where the sweep varies none."),
        Column("protocol", "text", "The protocol of our number."),
        Column("metric", "text", "The column of our number."),
        Column("paper", "number", "The paper's number as printed, fractions for percentages."),
        *_with_ends("number", {"ours": "Our mean over the seeds."}),
        Column("n", "count", "Seeds of ours."),
        Column("difference", "number", "Ours minus the paper's."),
        Column("within", "true or false", "Our interval reaches a number that prints as the paper's; null: not known."),
        *_declared(
            "text",
            {
                "mark": "The same in a word, or why it cannot be said.",
                "remark": "What qualifies it.",
                "departures": "Settings that depart from the paper's.",
            },
        ),
    ),
    "defenses": (
        Column("setting", "text", "The defender's other axes; empty without any."),
        Column("section", "text", "The name of its defense, or `No defense`."),
        RECIPE,
        *_declared(
            "text",
            {
                "family": "The kind of its defense; `none` is plain training.",
                "label": "The recipe in a few words.",
                "strength": "How strong the defense is, with the parameter's name.",
                "mark": "The same without the name.",
            },
        ),
        Column("combined", "true or false", "It is combined with label smoothing."),
        Column("reference", "text", "The recipe of the setting that it is compared with."),
        Column("measured", "true or false", "Its leak was measured under every attack."),
        Column("verdict", "text", "The word of the comparison."),
        *REDUCTION,
        Column("seeds", "count", "Seeds that the comparison rests on."),
        Column("needed", "text", "What might settle an inconclusive comparison."),
        *_with_ends("fraction", {"accuracy": "Its test accuracy minus that of the reference."}),
        Column("accuracy_word", "text", "The verdict on that."),
        *_with_ends(
            "number",
            {"time": "Training time relative to plain training: geometric mean over the seeds."},
        ),
    ),
    "queries": (
        RECIPE,
        Column("attack", "text", "The attack's name; empty where the sweep varies none."),
        Column("access", "text", "What it sees of the target."),
        Column("control", "true or false", "It is no attack."),
        *_declared("count", {"n": "Seeds done.", "classes": "Classes attacked."}),
        *_declared(
            "number",
            {
                "queries_class": "Images shown to the target while a class was attacked, mean over the seeds.",
                "queries_once": "Images shown once for all classes by parts of the attack.",
                "queries": "Both, per class.",
            },
        ),
        Column("metric", "text", "The leak."),
        *_declared("unit of the leak", {"leak": "Its leak.", "low": "Lower end.", "high": "Upper end."}),
        Column("reached", "unit of the leak", "The strongest leak among attacks that ask at most so much."),
    ),
    "costs": (
        Column("by", "text", "`stage`, `recipe`, or `all`."),
        Column("name", "text", "The kind of stage, or the recipe that alone needs it."),
        Column("stages", "count", "Finished stages; one counts once, however many trials it serves."),
        Column("device_s", "seconds", "Seconds times devices held."),
        Column("saved_s", "seconds", "What they would have cost on top, had no stage served several trials."),
    ),
    "search": (
        *_declared("count", {"number": "Of the proposal.", "rung": "The cheap attack it met; null for the full one."}),
        Column("recipe", "text", "Its name."),
        Column("status", "text", "`done`, `failed` or `open`."),
        *_declared(
            "true or false",
            {
                "kept": "Its rung let it through.",
                "audited": "Attacked in full though dropped.",
                "feasible": "It meets all.",
            },
        ),
        Column("seeds", "count", "Seeds it met; null for all."),
        Column("device_hours", "number", "What it cost, work reused from the store not counted."),
        Column("marks", "list", "What became of it, in words."),
    ),
}
"""Frame -> its own columns. `recipes` and `attacks` have those of every metric measured (`metric_columns`) behind them,
`membership` the AUC of every attack and the reductions, `search` the objectives and the parameters."""
