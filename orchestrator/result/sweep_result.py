"""What a sweep has found: frames and their columns, facts and sentences, made once; writers only show it."""

from __future__ import annotations

import json
import math
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any, Literal

import numpy as np
import pandas as pd

from smoothsweep.core.judges.columns import BY_KEY, METRICS, metric_of
from smoothsweep.core.metrics.leak_comparisons import LeakComparison
from smoothsweep.core.metrics.verdicts import INCONCLUSIVE
from smoothsweep.orchestrator.result.cells import Summary
from smoothsweep.orchestrator.result.data import Measured, ReportData
from smoothsweep.orchestrator.result.defenses import cost_rows, cost_words, device_unit
from smoothsweep.orchestrator.result.display import (
    judges_lead,
    needed_words,
    row_reduction,
    setting_name,
    sheet_recipes,
    shown_metrics,
    too_inaccurate,
)
from smoothsweep.orchestrator.result.estimates import NOTHING
from smoothsweep.orchestrator.result.findings import captions, find, limits
from smoothsweep.orchestrator.result.format import ascii_text, is_null
from smoothsweep.orchestrator.result.leaks import exposed, hiding_not_looked_for, hiding_sentences
from smoothsweep.orchestrator.result.published import Published, paper_comparison
from smoothsweep.orchestrator.result.searches import search_words
from smoothsweep.orchestrator.result.standing import (
    check_reaudit,
    fresh_words,
    frontier_words,
    look_sentences,
    look_words,
    membership_frame,
    membership_sentence,
    recipe_standings,
    warnings_of,
)
from smoothsweep.orchestrator.result.summary import Decision, decide

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


ENDS = {
    "": "{meaning}",
    "_low": "Lower end of the interval of `{key}`.",
    "_high": "Upper end of the interval of `{key}`.",
    "_n": "Seeds under which `{key}` was measured.",
    "_differs": "Whether `{key}` is distinguishable from the baseline's: the corrected interval leaves out 0.",
}


def metric_columns(keys: Iterable[str]) -> tuple[Column, ...]:
    """A metric's mean over the seeds, its interval, how many seeds, and whether it differs from the baseline's."""
    found = []
    for spec in map(BY_KEY.__getitem__, keys):
        unit: Unit = "fraction" if spec.unit == "percent" else "number"
        for end, meaning in ENDS.items():
            kind: Unit = "count" if end == "_n" else "true or false" if end == "_differs" else unit
            words = meaning.format(meaning=f"Mean over the seeds. {spec.description}", key=spec.key)
            found.append(Column(f"{spec.key}{end}", kind, words, spec.judge))
    return tuple(found)


RECIPE = Column("recipe", "text", "The report's name of the recipe.")
REDUCTION = _declared(
    "unit of the leak",
    {
        "reduction": "Leak of the baseline minus leak of the recipe: positive leaks less.",
        "reduction_low": "Lower end of its interval, which holds for all recipes at once.",
        "reduction_high": "Upper end.",
    },
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
        *_declared(
            "unit of the leak",
            {
                "claimed": "The reduction under published attacks alone.",
                "hidden": "What published attacks lose beyond the reduction, because gradients are masked.",
                "hidden_low": "Lower end of its interval.",
                "hidden_high": "Upper end.",
            },
        ),
        Column("published", "text", "The published attack that works best against it."),
        Column("published_baseline", "text", "The published attack that works best against the baseline."),
        Column("look", "text", "At which look it was decided, in a sweep with looks."),
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
        *(
            Column(f"{name}{end}", "unit of the leak", f"{meaning}{words}")
            for name, meaning in {
                "leak": "Its leak",
                "chance": "What strangers, or a guess, would reach",
                "control": "The largest leak that the judge credits to a control",
                "reach": "The same of real photographs projected into the attacker's prior",
                "ceiling": "The same of real photographs",
            }.items()
            for end, words in {"": ".", "_low": ": lower end.", "_high": ": upper end."}.items()
        ),
    ),
    "people": (
        RECIPE,
        Column("class", "text", "The person."),
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
        *_declared(
            "number",
            {
                "paper": "The paper's number as printed, fractions for percentages.",
                "ours": "Our mean over the seeds.",
                "ours_low": "Lower end of its interval.",
                "ours_high": "Upper end.",
            },
        ),
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
    ),
}
"""Frame -> its own columns. `recipes` and `attacks` have those of every metric measured (`metric_columns`) behind them,
`membership` the AUC of every attack and the reductions, `search` the objectives and the parameters."""


@dataclass(frozen=True, kw_only=True)
class SweepResult:
    """The result of a sweep. Rates are fractions; what was not measured is null. `FRAMES` has the columns.

    Attributes:
        name: Of the sweep.
        facts: Name -> value; a `Measured` where it has an interval.
        sentences: Section -> its sentences, as the report has them.
        recipes: A row per recipe, under the attack that works best against it.
        attacks: A row per recipe and attack.
        judges: A row per judge of the baseline and of the recipe that leaks least.
        people: A row per recipe and person, the most probably exposed first.
        membership: A row per recipe, where membership was measured.
        published: A row per recipe, attack and metric, where the sweep reproduces a table of the paper.
        costs: Device time by kind of stage and by recipe.
        search: A row per proposal, where the sweep searches.
        labels: Metric -> what this sweep calls it: of a judge that is not good with its accuracy.
    """

    name: str
    facts: Mapping[str, Any]
    sentences: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    recipes: pd.DataFrame
    attacks: pd.DataFrame
    judges: pd.DataFrame
    people: pd.DataFrame
    membership: pd.DataFrame
    published: pd.DataFrame
    costs: pd.DataFrame
    search: pd.DataFrame
    labels: Mapping[str, str] = field(default_factory=dict)

    @property
    def frames(self) -> dict[str, pd.DataFrame]:
        """Name -> frame."""
        return {name: getattr(self, name) for name in FRAMES}

    def dump(self) -> dict[str, Any]:
        """The whole result as JSON has it: an infinite number and one that was not measured are null."""
        frames = {name: [plain(row) for row in frame.to_dict("records")] for name, frame in self.frames.items()}
        return {"sweep": self.name, "facts": plain(self.facts), "sentences": plain(self.sentences), **frames}

    def to_json(self) -> str:
        """The dump as text."""
        return json.dumps(self.dump(), indent=1, ensure_ascii=False, allow_nan=False)

    def __str__(self) -> str:
        answer = "\n".join(ascii_text(line) for line in self.sentences["answer"])
        shown = self.recipes[[name for name in ("recipe", "verdict", "reduction") if name in self.recipes]]
        return f"{answer}\n\n{shown.to_string(index=False)}"


def result_of(data: ReportData, summary: Summary) -> SweepResult:
    """The result, from rows of trials and their cells."""
    choice, published, members = decide(summary), paper_comparison(data, summary), membership_frame(data, summary)
    frames = {
        "recipes": recipe_frame(summary, choice),
        "attacks": attack_frame(summary),
        "judges": _judge_frame(summary),
        "people": _people_frame(summary),
        "membership": _frame("membership", []) if members is None else members,
        "published": published_frame(published),
        "costs": _frame("costs", rows_of(cost_rows(data, summary))),
        "search": _search_frame(data),
    }
    return SweepResult(
        name=data.title,
        facts=_facts(data, summary, choice),
        sentences={
            **_said(data, summary, frames["costs"]),
            "published": () if published is None else published.sentences,
        },
        labels={key: summary.metric(key).label for key in summary.measured},
        **frames,
    )


def recipe_frame(summary: Summary, choice: Decision | None = None) -> pd.DataFrame:
    """The frame `recipes`, in the order of the sweep."""
    choice = choice or decide(summary)
    worst = {} if summary.primary is None or summary.by_setting else summary.worst(summary.primary)
    last = {} if summary.primary is None else summary.stops(summary.primary)
    fullest = summary.frame.sort_values("n", ascending=False, kind="stable").drop_duplicates("recipe")
    rows = []
    for recipe in summary.recipes:
        row = worst.get(recipe, int(fullest.index[fullest["recipe"] == recipe][0]))
        cell, verdict = summary.cells[row], None if summary.by_setting else summary.verdict(recipe)
        rows.append(
            {
                "recipe": recipe,
                "attack": cell["attack"] if recipe in worst else None,
                "role": "baseline" if recipe in {*summary.references.values(), summary.baseline_recipe} else "",
                "n": cell["n"],
                "planned": cell["n"] + cell["failed"] + cell["missing"],
                "on_front": recipe in choice.front,
                "is_accurate": recipe not in choice.below,
                **comparison_columns(verdict, summary.references.get(recipe)),
                "look": ascii_text(look_words(summary, last[recipe])) if recipe in last else None,
                **_metrics(summary, cell, recipe, worst),
            }
        )
    return _frame("recipes", rows, summary)


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


def _metrics(summary: Summary, cell: Mapping[str, Any], recipe: str, worst: Mapping[str, int]) -> dict[str, Any]:
    """Every metric of a recipe: a leak under the attack that works best by its own judge, the rest of the row."""
    found: dict[str, Any] = {}
    for key in summary.measured:
        row, differs = cell, _differs(summary, cell, key)
        if metric_of(key).is_leak and worst:
            at = summary.worst(key).get(recipe)
            row = {} if at is None else summary.cells[at]
            verdict = None if at is None else summary.verdict(recipe, key)
            differs = verdict is not None and verdict.is_clear
        found |= {f"{key}{end}": row.get(f"{key}{end}") for end in ("", "_low", "_high", "_n")}
        found[f"{key}_differs"] = differs
    return found


def _differs(summary: Summary, cell: Mapping[str, Any], key: str) -> bool:
    return summary.gap(cell["row"], key).verdict not in ("", INCONCLUSIVE)


def attack_frame(summary: Summary) -> pd.DataFrame:
    """The frame `attacks`, in the order of the report."""
    places, key = _places(summary), summary.primary
    rows = []
    for index, cell in summary.cells.items():
        sign, gap = (1, NOTHING) if key is None else (-metric_of(key).sign, summary.gap(index, key))
        known = [sign * end for end in (gap.low, gap.high) if not is_null(end)]
        low, high = sorted(known) if len(known) == 2 else (None, None)
        rows.append(
            {
                **{name: cell[name] for name in ("recipe", "attack", "access", "control", "published", "is_baseline")},
                **{name: cell[name] for name in ("n", "failed", "missing")},
                "reduction": None if is_null(gap.difference) else sign * gap.difference,
                "reduction_low": low,
                "reduction_high": high,
                "reduction_n": None if key is None else gap.n,
                "verdict": row_reduction(summary.spec, gap)[1] if key else None,
                "place": places.get(index),
                "setting": setting_name(summary, cell) if summary.by_setting else None,
                "trials": cell["trials"],
                **{f"{m}{end}": cell[f"{m}{end}"] for m in summary.measured for end in ("", "_low", "_high", "_n")},
                **{f"{m}_differs": _differs(summary, cell, m) for m in summary.measured},
            }
        )
    return _frame("attacks", rows, summary)


def rows_of(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """The rows of a frame; null is None."""
    rows = frame.to_dict("records")
    return [{str(name): None if is_null(value) else value for name, value in row.items()} for row in rows]


def verdict_rows(result: SweepResult) -> pd.DataFrame:
    """The columns and rows of `verdicts.parquet`: the recipes that are compared with a baseline."""
    rows = result.recipes[result.recipes["verdict"].notna()].reset_index(drop=True)
    rows = rows.assign(attack=rows["attack_recipe"], portfolio=[list(result.facts["portfolio"])] * len(rows))
    whole = {"comparisons": int, "seeds": int, "seeds_needed": "Int64", "classes_needed": "Int64"}
    return rows[list(VERDICTS)].astype(whole)


VERDICTS = (
    *("recipe", "baseline", "verdict", "reduction", "reduction_low", "reduction_high", "p", "comparisons", "attack"),
    *("attack_baseline", "seeds", "seeds_needed", "classes_needed", "claimed", "hidden", "hidden_low", "hidden_high"),
    *("published", "published_baseline", "portfolio"),
)


def _places(summary: Summary) -> dict[Hashable, float]:
    """Row of the summary's frame -> its place: recipes by rising leak, each with its strongest attack first."""
    if summary.primary is None:
        return {}
    worst, recipe_of = summary.worst(summary.primary), summary.frame["recipe"]
    rows = [int(index) for index in summary.frame.index[~summary.frame["control"]]]

    def key(row: int) -> tuple[float, int, bool, float]:
        strongest, leak = worst[recipe_of[row]], summary.leak(row)
        return summary.leak(strongest), strongest, row != strongest, math.inf if math.isnan(leak) else -leak

    ordered = sorted((row for row in rows if recipe_of[row] in worst), key=key)
    return {row: float(place) for place, row in enumerate(ordered, start=1)}


def _frame(name: str, rows: list[dict[str, Any]], summary: Summary | None = None) -> pd.DataFrame:
    """Rows as a frame with the declared columns, in their order, also where there is no row."""
    declared = [column.name for column in FRAMES[name]]
    if summary is not None:
        declared += [column.name for column in metric_columns(summary.measured)]
    frame = pd.DataFrame(rows, columns=None if rows else declared)
    return frame[[*declared, *(column for column in frame if column not in declared)]]


def _judge_frame(summary: Summary) -> pd.DataFrame:
    rows = []
    for one in recipe_standings(summary):
        for way in one.judged:
            row: dict[str, Any] = {"recipe": one.recipe, "attack": one.attack, "metric": way.metric, "hit": way.words}
            row["is_told"] = way.told
            for name, number in way.numbers.items():
                row |= {name: number.value, f"{name}_low": number.low, f"{name}_high": number.high}
            rows.append(row)
    return _frame("judges", rows)


def _people_frame(summary: Summary) -> pd.DataFrame:
    """Of the recipes that a decision is about, each under the attack that works best against it."""
    rows = []
    worst = {} if summary.primary is None else summary.worst(summary.primary)
    for recipe in sheet_recipes(summary) if worst else ():
        for person in exposed(summary, worst[recipe], summary.deciding) if recipe in worst else ():
            of_person = {part.name: getattr(person, part.name) for part in fields(person)}
            rows.append({"recipe": recipe, "class": of_person.pop("key"), **of_person})
    return _frame("people", rows)


def published_frame(published: Published | None) -> pd.DataFrame:
    """The frame `published`."""
    columns, kinds = FRAMES["published"], {"count": int, "number": float, "true or false": "boolean"}
    lines = [line for block in published.blocks for line in block] if published else []
    frame = pd.DataFrame(lines, columns=[one.name for one in columns])
    return frame.astype({one.name: kinds[one.unit] for one in columns if one.unit in kinds}) if published else frame


def _search_frame(data: ReportData) -> pd.DataFrame:
    own = [column.name for column in FRAMES["search"]]
    rows = [
        {
            **{name: getattr(proposal, name) for name in own},
            "recipe": proposal.name or proposal.recipe,
            **proposal.objectives,
            **proposal.settings,
        }
        for proposal in (data.search.proposals if data.search else ())
    ]
    return _frame("search", rows)


def _facts(data: ReportData, summary: Summary, choice: Decision) -> dict[str, Any]:
    """The named facts: what was asked and run, what decides, the choice and what it rests on."""
    states = data.results["status"].value_counts()
    key, best, reference = summary.primary, choice.best, choice.reference
    recipe_of, evidence = summary.frame.get("recipe"), summary.evidence
    known: dict[str, Any] = {
        "protocol": data.protocol,
        "trials": len(data.results),
        **{f"trials_{state}": int(states.get(state, 0)) for state in ("done", "failed", "missing")},
        "seeds": int(data.results["seed"].nunique()),
        "people": data.people,
        "people_attacked": data.judged_classes,
        "attacks": tuple(filter(None, summary.attacks)),
        "controls": tuple(summary.controls),
        "portfolio": () if key is None else summary.cases(key).attacks,
        "by_setting": summary.by_setting,
        "key_metrics": tuple(shown_metrics(summary)),
        "leak": key,
        "leak_label": None if key is None else summary.spec.label,
        "level": summary.settings.level,
        "accuracy_asked": data.min_test_acc,
        "accuracy_margin": data.accuracy_margin,
        "baseline": summary.baseline_recipe,
        "best": None if best is None or recipe_of is None else str(recipe_of[best]),
        "best_mark": None if choice.marked is None else choice.mark,
        "best_is_clear": choice.clear,
        "best_is_significant": choice.significant,
        "best_ties": choice.ties,
        "front": choice.front,
        "too_inaccurate": choice.below,
        "too_inaccurate_words": too_inaccurate(summary),
        "seeds_shared": choice.seeds,
        "hiding_not_looked_for": hiding_not_looked_for(summary),
        "device_s": None if data.spent is None else data.spent.device_s,
        "wall_s": None if data.spent is None else data.spent.wall_s,
    }
    for name, row in (("best", best), ("baseline", reference)):
        for of, metric in (("accuracy", "test_acc"), ("leak", key)):
            known[f"{name}_{of}"] = None if row is None or metric is None else summary.estimate(row, metric)
    if best is not None and reference not in (None, best):
        gap = summary.reduction(summary.deciding, *(str(summary.frame.loc[row, "recipe"]) for row in (best, reference)))
        known["reduction"] = gap and Measured(gap.reduction, gap.low, gap.high, gap.seeds)
        lost = summary.compare("test_acc", best, reference)  # type: ignore[arg-type]
        known["accuracy_difference"] = Measured(lost.difference, lost.low, lost.high, lost.n)
    if evidence is not None and evidence.recommendation.probability_best is not None:
        known["best_probability"] = evidence.recommendation.probability_best.get(evidence.recommendation.best or "")
    if key is not None and (control := summary.worst_of_control(key)) is not None:
        known |= {"control": control[0], "control_leak": summary.estimate(control[1], key)}
    return known


def _said(data: ReportData, summary: Summary, costs: pd.DataFrame) -> dict[str, tuple[str, ...]]:
    """The report's sentences by their section."""
    checked, members = check_reaudit(data, summary), membership_frame(data, summary)
    several = summary.primary is not None and len(summary.attacks) > 1 and not summary.by_setting
    done = (data.results["status"] == "done").any()
    said: dict[str, Any] = {
        **find(data, summary),
        "limits": limits(data, summary) if done else (),
        **captions(data, summary),
        "hiding": hiding_sentences(summary) if several else (),
        "looks": look_sentences(summary),
        "fresh": () if checked is None else fresh_words(summary, checked),
        "front": filter(None, [frontier_words(summary)]),
        "judges": [judges_lead(summary)],
        "costs": [cost_words(costs, data.spent, device_unit(data))] if len(costs) else (),
        "search": () if data.search is None else search_words(data.search),
        "membership": () if members is None else (membership_sentence(members, summary), *warnings_of(data)),
        "not_measured": [f"{spec.label}: {data.reasons[spec.key]}" for spec in METRICS if spec.key in data.reasons],
    }
    return {section: tuple(lines) for section, lines in said.items()}


def plain(value: Any) -> Any:
    """A value as JSON has it; of a dataclass the fields that its text shows."""
    if is_dataclass(value):
        value = {part.name: getattr(value, part.name) for part in fields(value) if part.repr}
    if isinstance(value, Measured):
        value = value._asdict()
    if isinstance(value, Mapping):
        return {str(key): plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    if isinstance(value, np.generic):
        value = value.item()
    if is_null(value) or (isinstance(value, float) and not math.isfinite(value)):
        return None
    return value if isinstance(value, bool | int | float | str) else str(value)
