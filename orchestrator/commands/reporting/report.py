"""The report of a sweep in the store: gathers what a result shows, and writes table, page and figures."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd

from smoothsweep.core.external.kinds import is_external
from smoothsweep.core.judges.columns import BY_KEY
from smoothsweep.core.judges.table import stage_that_draws
from smoothsweep.core.plugins import plugin_version, with_plugin_name
from smoothsweep.core.readers.tables import read_rows
from smoothsweep.orchestrator.page.pictures import comparison_sheet
from smoothsweep.orchestrator.page.render import UNNAMED_ATTACK, extremes, figure_files, write_report
from smoothsweep.orchestrator.page.tables import markdown_table, tables_of, terminal_text
from smoothsweep.orchestrator.planning.trial import Trial
from smoothsweep.orchestrator.result.data import (
    Axis,
    ContactSheet,
    FeatureView,
    PaperReference,
    ReportData,
    Spent,
)
from smoothsweep.orchestrator.result.format import ascii_text, listing
from smoothsweep.orchestrator.result.leaks import asked_by_parts
from smoothsweep.orchestrator.result.rows import (
    baseline_axes,
    by_attack,
    first_finished,
    least_of_data,
    per_class_rows,
    relative_links,
    surrogate_lines,
    sweep_axes,
    write_results,
    write_rows,
)
from smoothsweep.orchestrator.result.summary import recipe_label
from smoothsweep.orchestrator.result.sweep_result import SweepResult, result_of, verdict_rows
from smoothsweep.orchestrator.search.agenda import spent
from smoothsweep.orchestrator.search.record import search_view
from smoothsweep.orchestrator.stages.stage import Stage, code_version, with_ancestors
from smoothsweep.orchestrator.store.base import Store
from smoothsweep.orchestrator.tracking.recipes import Verdicts, verdicts_of
from smoothsweep.sweeps.expand import LoadedSweep, as_inversion
from smoothsweep.sweeps.imported import ImportedClassifier
from smoothsweep.sweeps.paper_tables import standing
from smoothsweep.sweeps.schema import InversionSweep


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
    data = report_data(loaded, trials, store, table, out)
    result = result_of(data)
    return write_gathered(replace(data, sheets=contact_sheets(trials, store, data, result)), result, out)


def write_gathered(data: ReportData, result: SweepResult, out: Path) -> tuple[str, list[Path], Verdicts]:
    """The page, the figures and the tables beside results.parquet. As `write_sweep_report`."""
    page = write_report(data, out, result)
    files = [out / "results.parquet", page, *figure_files(out)]
    told = terminal_text(result)
    frames = {VERDICTS: verdict_rows(result), TWO_LEAKS: result.membership, QUERIES: result.queries}
    frames[COMPARISON] = result.published if result.sentences["published"] else None
    for name, frame in frames.items():
        if frame is not None and (len(frame) or name == COMPARISON):
            write_rows(frame, out / name)
            files.append(out / name)
    return told, files, verdicts_for_mlflow(result)


def verdicts_for_mlflow(result: SweepResult) -> Verdicts:
    """What the sweep's runs in MLflow say: the report's verdicts, first sentence and table of recipes."""
    return verdicts_of(result, ascii_text(f"{result.sentences['answer'][0]}\n\n{markdown_table(tables_of(result)[0])}"))


def contact_sheets(
    trials: list[Trial], store: Store, data: ReportData, result: SweepResult
) -> tuple[ContactSheet, ...]:
    """One per attack, with the recipes that a report shows pictures of in columns."""
    return tuple(_sheets(_of_sweep(trials), data.axes, store, {*result.facts["pictured"], *extremes(result)}))


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
        asked=asked_by_parts(compared, store),
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
