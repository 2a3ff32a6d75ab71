"""What a sweep has found: frames, named facts and sentences, made once; whatever is written or drawn only shows it."""

from __future__ import annotations

import json
import math
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any

import numpy as np
import pandas as pd

from smoothsweep.core.judges.columns import METRICS, metric_of
from smoothsweep.core.metrics.leak_comparisons import LeakComparison
from smoothsweep.core.metrics.verdicts import INCONCLUSIVE
from smoothsweep.orchestrator.result.cells import Summary
from smoothsweep.orchestrator.result.columns import FRAMES, metric_columns
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
from smoothsweep.orchestrator.result.more_seeds import (
    check_reaudit,
    fresh_words,
    frontier_words,
    look_sentences,
    look_words,
)
from smoothsweep.orchestrator.result.published import Published, paper_comparison
from smoothsweep.orchestrator.result.searches import search_words
from smoothsweep.orchestrator.result.standing import (
    membership_frame,
    membership_sentence,
    recipe_standings,
    warnings_of,
)
from smoothsweep.orchestrator.result.summary import Decision, decide


@dataclass(frozen=True, kw_only=True)
class SweepResult:
    """The result of a sweep. Rates are fractions; what was not measured is null. `result.columns` has the columns.

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
