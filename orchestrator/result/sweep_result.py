"""What a sweep has found: frames, named facts and sentences, made once; whatever is written or drawn only shows it."""

from __future__ import annotations

import json
import math
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field, fields, is_dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from smoothsweep.core.judges.columns import CLASS_METRICS, METRICS, metric_of
from smoothsweep.core.metrics.metric import Metric
from smoothsweep.core.metrics.verdicts import INCONCLUSIVE
from smoothsweep.orchestrator.result.cells import Summary
from smoothsweep.orchestrator.result.columns import FRAMES, metric_columns
from smoothsweep.orchestrator.result.data import Measured, ReportData, progress
from smoothsweep.orchestrator.result.defenses import (
    REDUCTION,
    cost_rows,
    defense_frame,
    family_columns,
    numbers_of,
)
from smoothsweep.orchestrator.result.display import (
    as_gap,
    comparison_columns,
    gap_columns,
    reduction_of,
    row_word,
    screen_facts,
    setting_name,
    shown_rows,
)
from smoothsweep.orchestrator.result.estimates import LEVEL, NOTHING
from smoothsweep.orchestrator.result.findings import captions, find, limits
from smoothsweep.orchestrator.result.format import ascii_text, is_null, number
from smoothsweep.orchestrator.result.leaks import (
    advantage_panels,
    exposed,
    hiding_not_looked_for,
    query_frame,
)
from smoothsweep.orchestrator.result.published import paper_comparison, published_sentences
from smoothsweep.orchestrator.result.searches import marks, search_sentences
from smoothsweep.orchestrator.result.standing import (
    Fresh,
    check_reaudit,
    fresh_columns,
    look_sentences,
    look_words,
    membership_frame,
    membership_sentence,
    recipe_standings,
    warnings_of,
)
from smoothsweep.orchestrator.result.summary import Decision, decide, summarise


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
        people: A row per recipe, attack and person, the most probably exposed first.
        membership: A row per recipe, where membership was measured.
        published: A row per recipe, attack and metric, where the sweep reproduces a table of the paper.
        defenses: A row per recipe of a sweep over several defenses, by setting and defense, beside the setting's own
            reference.
        queries: A row per recipe and attack: what it asked of the target, and what it reached.
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
    defenses: pd.DataFrame
    queries: pd.DataFrame
    costs: pd.DataFrame
    search: pd.DataFrame
    labels: Mapping[str, str] = field(default_factory=dict)

    @property
    def frames(self) -> dict[str, pd.DataFrame]:
        """Name -> frame."""
        return {name: getattr(self, name) for name in FRAMES}

    def metric(self, key: str) -> Metric:
        """A metric as this sweep calls it."""
        return replace(metric_of(key), label=self.labels.get(key, metric_of(key).label))

    def strongest(self, metric: str, attack: str | None = None) -> dict[str, int]:
        """Recipe -> its row of `attacks` where the metric was measured: under one attack, or (None) under the one that
        works best by this metric, of the recipes that have met every attack."""
        if attack is not None:
            rows = self.attacks[(self.attacks["attack"] == attack) & self.attacks[metric].notna()]
            return {str(recipe): int(row) for row, recipe in rows["recipe"].items()}
        if self.facts["by_setting"] or self.facts["leak"] is None or metric not in self.labels:
            return {}
        place = {pair: row for row, pair in enumerate(zip(self.attacks["recipe"], self.attacks["attack"], strict=True))}
        known = self.recipes[self.recipes[metric].notna()]
        return {pair[0]: place[pair] for pair in zip(known["recipe"], known[f"{metric}_attack"], strict=True)}

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


def result_of(data: ReportData, summary: Summary | None = None) -> SweepResult:
    """The result, from rows of trials. summary: their cells, where the caller has them."""
    summary = summary or summarise(data)
    choice, published = decide(summary), paper_comparison(data, summary)
    fresh, fresh_seeds = check_reaudit(data, summary)
    members = membership_frame(data, summary)
    defended, settings = defense_frame(data, summary)
    frames = {
        "recipes": recipe_frame(summary, fresh),
        "attacks": attack_frame(summary),
        "judges": _judge_frame(summary),
        "people": _people_frame(summary),
        "membership": _frame("membership", []) if members is None else members,
        "published": published_frame(published),
        "defenses": _frame("defenses", defended),
        "queries": _frame("queries", query_frame(summary, data.asked).to_dict("records")),
        "costs": _frame("costs", rows_of(cost_rows(data, summary))),
        "search": _search_frame(data),
    }
    return SweepResult(
        name=data.title,
        facts={
            **_facts(data, summary, choice),
            **screen_facts(summary),
            "fresh_seeds": fresh_seeds,
            "settings": settings,
            "advantage": advantage_panels(summary),
            "published": published,
        },
        sentences={
            **_said(data, summary, members),
            "published": () if published is None else published_sentences(published),
        },
        labels={key: summary.metric(key).label for key in summary.measured},
        **frames,
    )


def recipe_frame(summary: Summary, fresh: Fresh | None = None) -> pd.DataFrame:
    """The frame `recipes`, in the order of the sweep. fresh: the second audit."""
    choice, numbers = decide(summary), numbers_of(summary)
    probable = {} if summary.evidence is None else summary.evidence.recommendation.probability_best or {}
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
                "probability_best": probable.get(recipe),
                "number": numbers.get(recipe),
                **family_columns(summary, recipe),
                **fresh_columns(summary, (fresh or {}).get(recipe)),
                **_metrics(summary, cell, recipe, worst),
            }
        )
    return _frame("recipes", rows, summary)


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
            gap = as_gap(key, verdict)
        else:
            gap = gap_columns(summary, key, cell)
        found |= {f"{key}{end}": row.get(f"{key}{end}") for end in ("", "_low", "_high", "_n")}
        found |= {f"{key}_attack": row.get("attack"), f"{key}_differs": differs, **gap}
    return found


def _differs(summary: Summary, cell: Mapping[str, Any], key: str) -> bool:
    return summary.gap(cell["row"], key).verdict not in ("", INCONCLUSIVE)


def attack_frame(summary: Summary) -> pd.DataFrame:
    """The frame `attacks`, in the order of the report."""
    places, key = _places(summary), summary.primary
    rows = []
    for index, cell in summary.cells.items():
        gap = NOTHING if key is None else summary.gap(index, key)
        rows.append(
            {
                **{name: cell[name] for name in ("recipe", "attack", "access", "control", "published", "is_baseline")},
                **{name: cell[name] for name in ("n", "failed", "missing")},
                **(reduction_of(metric_of(key), gap) if key else dict.fromkeys(REDUCTION)),
                "reduction_n": gap.n if key else None,
                "verdict": row_word(metric_of(key), gap) if key else None,
                "place": places.get(index),
                "setting": setting_name(summary, cell) if summary.by_setting else None,
                "trials": cell["trials"],
                **{f"{m}{end}": cell[f"{m}{end}"] for m in summary.measured for end in ("", "_low", "_high", "_n")},
                **{f"{m}_attack": cell["attack"] for m in summary.measured},
                **{f"{m}_differs": _differs(summary, cell, m) for m in summary.measured},
                **{name: value for m in summary.measured for name, value in gap_columns(summary, m, cell).items()},
            }
        )
    return _frame("attacks", rows, summary)


def rows_of(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """The rows of a frame; null is None."""
    columns = {
        str(name): [None if absent else value for value, absent in zip(column.tolist(), column.isna(), strict=True)]
        for name, column in frame.items()
    }
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


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
    rows = [
        {name: summary.cells[row][name] for name in ("recipe", "attack")} | way.row
        for row, judged in recipe_standings(summary).items()
        for way in judged
    ]
    return _frame("judges", rows)


def _people_frame(summary: Summary) -> pd.DataFrame:
    """Of the recipes that a decision is about, under every attack."""
    rows = []
    measured = (key for key in (summary.primary, *CLASS_METRICS) if key in CLASS_METRICS and key in summary.measured)
    key = next(measured, None)
    for row in shown_rows(summary) if key else ():
        cell = {name: summary.cells[row][name] for name in ("recipe", "attack")}
        rows += [{**cell, "metric": key, **person} for person in exposed(summary, row, str(key))]
    return _frame("people", rows)


def published_frame(published: Mapping[str, Any] | None) -> pd.DataFrame:
    """The frame `published`."""
    columns, kinds = FRAMES["published"], {"count": int, "number": float, "true or false": "boolean"}
    lines = [line for block in published["blocks"] for line in block] if published else []
    frame = pd.DataFrame(lines, columns=[one.name for one in columns])
    return frame.astype({one.name: kinds[one.unit] for one in columns if one.unit in kinds}) if published else frame


def _search_frame(data: ReportData) -> pd.DataFrame:
    own = [column.name for column in FRAMES["search"] if column.name != "marks"]
    gone = None if data.search is None else progress(data.search)
    rows = [
        {
            **{name: getattr(proposal, name) for name in own},
            "recipe": proposal.name or proposal.recipe,
            "marks": marks(proposal, gone),
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
    recipe_of, evidence, floor = summary.frame.get("recipe"), summary.evidence, summary.min_test_acc
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
        "leak": key,
        "leak_label": None if key is None else summary.spec.label,
        "level": LEVEL,
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
        "too_inaccurate_words": "" if floor is None else f"test accuracy below {number(metric_of('test_acc'), floor)}",
        "seeds_shared": choice.seeds,
        "hiding_not_looked_for": hiding_not_looked_for(summary),
        "not_every_attack": () if key is None else tuple(r for r in summary.recipes if r in summary.cases(key).missing),
        **dict(zip(("device_s", "wall_s"), data.spent or (None, None), strict=True)),
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


def _said(data: ReportData, summary: Summary, members: pd.DataFrame | None) -> dict[str, tuple[str, ...]]:
    """The report's sentences by their section."""
    done = (data.results["status"] == "done").any()
    said: dict[str, Any] = {
        **find(data, summary),
        "limits": limits(data, summary) if done else (),
        **captions(data, summary),
        "looks": look_sentences(summary),
        **({} if data.search is None else search_sentences(data.search)),
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
