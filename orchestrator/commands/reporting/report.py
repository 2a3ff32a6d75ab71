"""The report of a sweep in the store: gathers what a result shows, and writes table, page and figures."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

import pandas as pd

from smoothsweep.core.defenses.strengths import value_text
from smoothsweep.core.external.kinds import is_external
from smoothsweep.core.judges.columns import BY_KEY
from smoothsweep.core.judges.table import stage_that_draws
from smoothsweep.core.plugins import plugin_version, with_plugin_name
from smoothsweep.core.readers.tables import read_rows
from smoothsweep.core.text import NBSP, minus
from smoothsweep.orchestrator.page.content import UNNAMED_ATTACK, extremes
from smoothsweep.orchestrator.page.pictures import comparison_sheet
from smoothsweep.orchestrator.page.tables import markdown_table, tables_of, terminal_text
from smoothsweep.orchestrator.page.writing import figure_files, write_report
from smoothsweep.orchestrator.planning.trial import Trial
from smoothsweep.orchestrator.result.axes import baseline_axes, by_attack, first_finished, sweep_axes
from smoothsweep.orchestrator.result.data import (
    Axis,
    ContactSheet,
    FeatureView,
    Importance,
    Objective,
    PaperReference,
    ProposalRow,
    ReportData,
    SearchView,
    Spent,
    Status,
    same_recipe,
)
from smoothsweep.orchestrator.result.display import sheet_recipes
from smoothsweep.orchestrator.result.format import ascii_text, count, duration, is_null, listing
from smoothsweep.orchestrator.result.leaks import asked_by_parts, query_frame
from smoothsweep.orchestrator.result.rows import (
    least_of_data,
    per_class_rows,
    relative_links,
    surrogate_lines,
    write_results,
    write_rows,
)
from smoothsweep.orchestrator.result.summary import Summary, recipe_label, summarise
from smoothsweep.orchestrator.result.sweep_result import SweepResult, result_of, verdict_rows
from smoothsweep.orchestrator.search.agenda import spent
from smoothsweep.orchestrator.stages.code_version import code_version
from smoothsweep.orchestrator.stages.stage import Stage, with_ancestors
from smoothsweep.orchestrator.store.base import Store
from smoothsweep.orchestrator.tracking.runs import Verdicts, verdicts_of
from smoothsweep.sweeps.expand import axis_names
from smoothsweep.sweeps.imported import ImportedClassifier
from smoothsweep.sweeps.loaded import LoadedSweep, as_inversion
from smoothsweep.sweeps.paper_settings import standing
from smoothsweep.sweeps.schema import InversionSweep

if TYPE_CHECKING:
    from smoothsweep.orchestrator.search.record import ProposalRecord, SearchRecord


def _counts(manifest: Mapping[str, Any]) -> dict[str, float]:
    """Numbers of a manifest that are finite."""
    numbers = {key: value for key, value in manifest["metrics"].items() if value is not None}
    return {key: float(value) for key, value in numbers.items() if math.isfinite(value)}


def _seeds(loaded: LoadedSweep) -> str:
    seeds, looks = ", ".join(map(str, loaded.sweep.every_seed)), loaded.sweep.looks
    return seeds if looks is None else f"{seeds}; looks at {listing(map(str, looks.looks))}"


def sweep_facts(loaded: LoadedSweep, trials: list[Trial], store: Store) -> dict[str, str]:
    """Name -> value, as the report's section on the sweep lists them: what it is made of, and what it took."""
    facts = {"Sweep file": loaded.source, "Store": store.location, "Seeds": _seeds(loaded), "Code": code_version()}
    facts |= members_used([as_inversion(trial.settings) for trial in trials])
    named, stages = facts["Private data"], with_ancestors([stage for trial in trials for stage in trial.stages])
    manifests = [store.manifest(stage) for stage in stages if store.has(stage)]
    for manifest in manifests:
        m = _counts(manifest)
        if manifest["stage"] == "data" and {"num_classes", "num_train", "num_test"} <= m.keys():
            images = f"{m['num_train']:.0f} training and {m['num_test']:.0f} test images"
            facts["Private data"] = f"{named}, {m['num_classes']:.0f} classes, {images}"
    if manifests:
        facts["Device time"] = f"{sum(m['seconds'] for m in manifests) / 60:.1f} min over {len(manifests)} stages"
        facts["Devices"] = ", ".join(sorted({f"{m.get('device')} on {m.get('host')}" for m in manifests}))
        facts["Libraries"] = ", ".join(f"{k} {v}" for k, v in (manifests[-1].get("libraries") or {}).items() if v)
    if licences := prior_licences(trials):
        facts["Licence of the prior"] = " ".join(licences)
    return facts


def members_used(settings: Sequence[InversionSweep]) -> dict[str, str]:
    """What of each family all these trials use, in words; of one that a package brings with its name and version."""
    attacks = [sweep.attack.words for sweep in settings if sweep.attack is not None]
    priors = [sweep.prior.words for sweep in settings if sweep.reads_prior and sweep.prior is not None]
    data = [_named("data", sweep.data.kind) for sweep in settings]
    targets = [sweep.recipe.checked for sweep in settings if isinstance(sweep.recipe, ImportedClassifier)]
    models = [_named("models", card.architecture) for card in targets if is_external(card.architecture)]
    defended = [sweep.recipe.defense for sweep in settings if sweep.recipe.defense is not None]
    defenses = [
        _named("defenses", defense.kind) for defense in defended if plugin_version("defenses", defense.kind)
    ]  # recipes name ours
    members = {"Private data": data, "Model": models, "Defense": defenses, "Attack": attacks, "Prior": priors}
    return {name: "; ".join(dict.fromkeys(words)) for name, words in members.items() if words}


def _named(family: str, kind: str) -> str:
    return with_plugin_name(kind.replace("_", " "), family, kind)


def prior_licences(trials: list[Trial]) -> list[str]:
    """What images and results are bound to by the priors that they were made with."""
    settings = [trial.settings for trial in trials]
    read = [
        sweep.prior.built
        for sweep in settings
        if isinstance(sweep, InversionSweep) and sweep.reads_prior and sweep.prior
    ]
    return sorted({prior.licence for prior in read if prior.licence is not None})


def search_view(loaded: LoadedSweep, store: Store, label: Callable[[Mapping[str, Any]], str]) -> SearchView | None:
    """What the report shows of the sweep's search; None for a sweep without one. label: axes -> a recipe's name."""
    if loaded.sweep.search is None:
        return None
    # the searches need Optuna, which a report of a grid does not
    from smoothsweep.orchestrator.search.record import importances, read_search

    record = read_search(loaded, store)
    return None if record is None else view_of(record, loaded.sweep.search, label, importances(loaded, record))


def view_of(
    record: SearchRecord,
    search: Any,
    label: Callable[[Mapping[str, Any]], str],
    shares: Sequence[Importance] = (),
) -> SearchView:
    """The record in a reader's words. search: the sweep file's `search`; shares: by the keys of its space."""
    names = dimension_names(search.space)
    return SearchView(
        strategy=record.strategy,
        asked=search.recipes,
        stopped_by=record.stopped_by,
        objectives=tuple(
            Objective(column=column, way=cast("Literal['max', 'min']", way))
            for column, way in record.objectives.items()
        ),
        proposals=tuple(_proposed(proposal, names, label) for proposal in record.proposals),
        space=tuple(dimension_words(names[key], _given(dimension), names) for key, dimension in search.space.items()),
        constraints=tuple(constraint_words(column, ends) for column, ends in record.constraints.items()),
        budget=budget_words(record.budget or {}),
        spent_device_hours=record.spent_device_hours,
        rungs=tuple(rung_words(rung.set) for rung in search.rungs),
        importances=tuple(
            replace(importance, shares=tuple((names.get(key, key), share) for key, share in importance.shares))
            for importance in shares
        ),
    )


def dimension_names(space: Mapping[str, Any]) -> dict[str, str]:
    """Dotted key of the space -> its short name."""
    return {key: name.replace("_", " ") for key, name in axis_names(list(space)).items()}


def dimension_words(name: str, dimension: Mapping[str, Any], names: Mapping[str, str]) -> str:
    """`start: 0 to 0.8 in steps of 0.05, with kind ramp`."""
    if dimension.get("choices") is not None:
        span = ", ".join("none" if choice is None else value_text(choice) for choice in dimension["choices"])
    else:
        span = f"{value_text(dimension['low'])} to {value_text(dimension['high'])}"
        if dimension.get("step"):
            span += f" in steps of {value_text(dimension['step'])}"
        if dimension.get("log"):
            span += ", evenly in the logarithm"
    if dimension.get("above"):
        span += f", above {names.get(dimension['above'], dimension['above'])}"
    for key, values in (dimension.get("when") or {}).items():
        wanted = values if isinstance(values, list | tuple) else (values,)
        span += f", with {names.get(key, key)} {' or '.join(map(value_text, wanted))}"
    return f"{name}: {span}"


def constraint_words(column: str, ends: Mapping[str, float]) -> str:
    """`test accuracy at least 90 %`."""
    spec = BY_KEY.get(column)
    words = {"at_least": "at least", "at_most": "at most"}
    shown_ends = [f"{words[end]} {_amount(column, value)}" for end, value in ends.items() if end in words]
    return f"{spec.label if spec else column} {listing(shown_ends)}"


def budget_words(budget: Mapping[str, float | None]) -> str:
    """`3 device-hours and 60 minutes`; empty without one."""
    ways = (("device_hours", 3600, "of device time"), ("minutes", 60, "by the clock"))
    amounts = [(amount, unit, words) for key, unit, words in ways if (amount := budget.get(key)) is not None]
    return listing(f"{duration(unit * amount)} {words}" for amount, unit, words in amounts)


def rung_words(settings: Mapping[str, Any]) -> str:
    """`4 classes, candidates 2, steps 10`: in what the attack is cheaper than the full one."""
    parts = []
    for key, value in settings.items():
        if key == "classes" and isinstance(value, list | tuple):
            parts.append(count(len(value), "class", "classes"))
        else:
            parts.append(f"{key.removeprefix('attack.').replace('.', ' ').replace('_', ' ')} {value_text(value)}")
    return ", ".join(parts)


def _proposed(
    record: ProposalRecord, names: Mapping[str, str], label: Callable[[Mapping[str, Any]], str]
) -> ProposalRow:
    stated = {names.get(key, key): value for key, value in record.values.items() if not is_null(value)}
    values = {name: value_text(value) for name, value in stated.items()}
    name = label(record.axes)
    return ProposalRow(
        number=record.number,
        values=values,
        key=same_recipe(record.values),
        rung=record.rung,
        status=cast(Status, record.status),
        objectives=record.objectives,
        device_hours=record.device_hours,
        kept=record.kept,
        audited=record.audited,
        recipe=name if record.rung is None and record.seeds is None else None,
        name=name,
        feasible=record.feasible is not False,
        seeds=record.seeds,
        settings={name: _setting(value, values[name]) for name, value in stated.items()},
    )


def _setting(value: Any, words: str) -> float | str:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else words


def _amount(column: str, value: float) -> str:
    percent = column in BY_KEY and BY_KEY[column].unit == "percent"
    return f"{minus(f'{100 * value:g}')}{NBSP}%" if percent else minus(f"{value:g}")


def _given(dimension: Any) -> Mapping[str, Any]:
    """A dimension of the sweep file as a mapping."""
    return dimension if isinstance(dimension, Mapping) else dimension.model_dump()


COMPARISON = "published_comparison.parquet"
VERDICTS = "verdicts.parquet"
QUERIES = "queries.parquet"
TWO_LEAKS = "two_leaks.parquet"
FEATURE_FILES = ("map.parquet", "distances.parquet")
CURVES = "gradients.parquet"
HISTORY = ("loss", "train_acc", "test_acc")


def write_sweep_report(
    loaded: LoadedSweep, trials: list[Trial], store: Store, failures: dict[str, str], out: Path
) -> tuple[str, list[Path], Verdicts]:
    """Write results.parquet, report.html and figures into `out`; returns the table as text, the files, what is said of
    each recipe."""
    table = write_results(trials, store, failures, out, sweep_axes(loaded, trials))
    data, summary = gather_report(loaded, trials, store, table, out)
    data = replace(data, sheets=contact_sheets(trials, store, data, summary))
    return write_gathered(data, summary, out)


def write_gathered(data: ReportData, summary: Summary, out: Path) -> tuple[str, list[Path], Verdicts]:
    """The page, the figures and the tables beside results.parquet, of what `gather_report` returns. As
    `write_sweep_report`."""
    result = result_of(data, summary)
    page = write_report(data, out, summary, result)
    files = [out / "results.parquet", page, *figure_files(out)]
    told = terminal_text(result)
    frames = {VERDICTS: verdict_rows(result), TWO_LEAKS: result.membership, QUERIES: data.queries}
    frames[COMPARISON] = result.published if result.sentences["published"] else None
    for name, frame in frames.items():
        if frame is not None and (len(frame) or name == COMPARISON):
            write_rows(frame, out / name)
            files.append(out / name)
    return told, files, verdicts_for_mlflow(result)


def verdicts_for_mlflow(result: SweepResult) -> Verdicts:
    """What the sweep's runs in MLflow say: the report's verdicts, first sentence and table of recipes."""
    return verdicts_of(result, ascii_text(f"{result.sentences['answer'][0]}\n\n{markdown_table(tables_of(result)[0])}"))


def gather_report(
    loaded: LoadedSweep, trials: list[Trial], store: Store, table: pd.DataFrame, out: Path
) -> tuple[ReportData, Summary]:
    """What a report shows, and its cells: everything but the pictures."""
    data = report_data(loaded, trials, store, table, out)
    summary = summarise(data)
    queries = query_frame(summary, asked_by_parts(_of_sweep(trials), store))
    return replace(data, queries=queries if len(queries) else None), summary


def contact_sheets(trials: list[Trial], store: Store, data: ReportData, summary: Summary) -> tuple[ContactSheet, ...]:
    """One per attack, with the recipes that a report shows pictures of in columns."""
    return tuple(_sheets(_of_sweep(trials), data.axes, store, {*sheet_recipes(summary), *extremes(summary)}))


def report_data(loaded: LoadedSweep, trials: list[Trial], store: Store, table: pd.DataFrame, out: Path) -> ReportData:
    """Everything the page shows but the contact sheets, read from the artifacts."""
    axes = sweep_axes(loaded, trials)
    per_class, people = per_class_rows(trials, store), least_of_data(trials, store, "num_classes")
    compared, phase = _of_sweep(trials), table["phase"]
    known = partial(first_finished, compared, axes, store)
    targets = known("target").items()
    histories = {r: read_rows(store.needed_file(stage, "history.parquet")) for r, stage in targets}
    return ReportData(
        title=loaded.sweep.name,
        axes=axes,
        protocol=loaded.sweep.protocol,
        facts=sweep_facts(loaded, trials, store),
        intro=tuple(paragraph for paragraph in loaded.intro.split("\n\n") if paragraph),
        results=table[phase == "sweep"].reset_index(drop=True),
        fresh=_rows(table, phase == "reaudit"),
        others=_rows(table, ~phase.isin(("sweep", "reaudit"))),
        per_class=per_class if len(per_class) else None,
        defenses={trial.id: defense for trial in trials if (defense := trial.stated_defense)},
        baseline=baseline_axes(loaded),
        primary=_primary(loaded, table),
        min_test_acc=loaded.sweep.accuracy_needed,
        accuracy_margin=loaded.sweep.accuracy_margin,
        reasons=_reasons(table),
        paper=_paper(loaded, compared),
        search=search_view(loaded, store, partial(recipe_label, axes)),
        alpha_curves={recipe: history["alpha"].tolist() for recipe, history in histories.items()},
        training_curves={recipe: _by_epoch(history) for recipe, history in histories.items()},
        features={recipe: _features(store, stage) for recipe, stage in known(stage_that_draws("feature_map")).items()},
        gradient_curves={
            recipe: read_rows(store.needed_file(stage, CURVES))
            for recipe, stage in known(stage_that_draws("gradient_curves")).items()
        },
        links={
            t.id: relative_links(t, store, out, workers=float(as_inversion(t.settings).recipe.workers)) for t in trials
        },
        spent=_spent(loaded, store),
        real_images=least_of_data(trials, store, "num_test"),
        looks=loaded.sweep.looks,
        people=people,
        warnings=surrogate_lines(trials, store, people),
    )


def _of_sweep(trials: list[Trial]) -> list[Trial]:
    """The trials that recipes are compared by, without cheap attacks and fresh seeds."""
    return [trial for trial in trials if trial.phase == "sweep"]


def _rows(table: pd.DataFrame, chosen: pd.Series) -> pd.DataFrame | None:
    return table[chosen].reset_index(drop=True) if chosen.any() else None


def _primary(loaded: LoadedSweep, table: pd.DataFrame) -> str | None:
    """The leak that a search drives down decides its report too; None: as in any other sweep."""
    leak = loaded.sweep.leak_searched
    return leak if leak in BY_KEY and leak in table and table[leak].notna().any() else None


def _spent(loaded: LoadedSweep, store: Store) -> Spent | None:
    device_s, wall_s = spent(store, loaded.sweep.name)
    return Spent(device_s=device_s, wall_s=wall_s) if wall_s else None


def _paper(loaded: LoadedSweep, trials: list[Trial]) -> PaperReference | None:
    """How every trial stands to the table of the paper that the sweep names."""
    reference = loaded.sweep.paper
    if reference is None:
        return None
    standings = {
        t.id: standing(as_inversion(t.settings), reference.dataset_of(as_inversion(t.settings).data), reference.table)
        for t in trials
    }
    datasets = dict.fromkeys(reference.dataset_of(as_inversion(trial.settings).data) for trial in trials)
    return PaperReference(table=reference.table, datasets=tuple(datasets), standings=standings)


def _reasons(table: pd.DataFrame) -> dict[str, str]:
    """Reasons for metrics that no finished trial has."""
    done = table[table["status"] == "done"]
    reasons: dict[str, str] = {}
    for row in done["reasons"]:
        reasons.update(pd.io.json.ujson_loads(row))
    return {k: v for k, v in reasons.items() if k in BY_KEY and (k not in done or done[k].isna().all())}


def _by_epoch(history: pd.DataFrame) -> list[dict[str, float]]:
    return [row.dropna().to_dict() for _, row in history[["epoch", *HISTORY]].iterrows()]


def _features(store: Store, stage: Stage) -> FeatureView:
    points, distances = (read_rows(store.needed_file(stage, name)) for name in FEATURE_FILES)
    return FeatureView(points=points, distances=distances)


def _sheets(trials: list[Trial], axes: tuple[Axis, ...], store: Store, recipes: Collection[str]) -> list[ContactSheet]:
    """One sheet per attack, of the first seed: these recipes in columns."""
    of_first_seed = [trial for trial in trials if trial.seed == trials[0].seed]
    sheets = []
    for attack, columns in by_attack(of_first_seed, axes).items():
        chosen = {recipe: cells[0] for recipe, cells in columns.items() if recipe in recipes}
        sheets.append(comparison_sheet([*chosen.values()], [*chosen], store, title=attack or UNNAMED_ATTACK))
    return [sheet for sheet in sheets if sheet is not None]
