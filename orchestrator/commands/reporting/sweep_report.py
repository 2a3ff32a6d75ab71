"""The report of a sweep in the store: fills the report's data model and writes table, page and figures."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from functools import partial
from pathlib import Path

import pandas as pd

from smoothsweep.core.judges.columns import BY_KEY
from smoothsweep.core.judges.table import stage_that_draws
from smoothsweep.core.readers.tables import read_rows
from smoothsweep.orchestrator.commands.reporting.facts import sweep_facts
from smoothsweep.orchestrator.commands.reporting.search_report import search_view
from smoothsweep.orchestrator.page.faces import UNNAMED_ATTACK, extremes
from smoothsweep.orchestrator.page.pictures import comparison_sheet
from smoothsweep.orchestrator.page.tables import markdown_table
from smoothsweep.orchestrator.page.writing import figure_files, write_report
from smoothsweep.orchestrator.planning.trial import Trial
from smoothsweep.orchestrator.result.axes import baseline_axes, by_attack, first_finished, sweep_axes
from smoothsweep.orchestrator.result.data import (
    Axis,
    ContactSheet,
    FeatureView,
    PaperReference,
    ReportData,
    Spent,
)
from smoothsweep.orchestrator.result.display import settings_text, sheet_recipes, text_table
from smoothsweep.orchestrator.result.findings import find
from smoothsweep.orchestrator.result.format import ascii_text
from smoothsweep.orchestrator.result.leaks import (
    HidingVerdicts,
    asked_by_parts,
    hiding_verdicts,
    query_frame,
    verdict_frame,
    verdict_text,
)
from smoothsweep.orchestrator.result.membership import two_leaks, warnings_of
from smoothsweep.orchestrator.result.more_seeds import look_text
from smoothsweep.orchestrator.result.printed import printed_tables
from smoothsweep.orchestrator.result.published import paper_comparison, published_frame, published_text
from smoothsweep.orchestrator.result.rows import (
    least_of_data,
    per_class_rows,
    relative_links,
    surrogate_lines,
    write_results,
    write_rows,
)
from smoothsweep.orchestrator.result.summary import Summary, recipe_label, summarise
from smoothsweep.orchestrator.search.budget import spent
from smoothsweep.orchestrator.stages.stage import Stage
from smoothsweep.orchestrator.store.base import Store
from smoothsweep.orchestrator.tracking.runs.verdicts import Verdicts, verdicts_of
from smoothsweep.sweeps.loaded import LoadedSweep, as_inversion
from smoothsweep.sweeps.paper_settings import standing

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
    page = write_report(data, out, summary)
    files = [out / "results.parquet", page, *figure_files(out)]
    texts, hiding = [text_table(summary)], hiding_verdicts(summary)
    if summary.by_setting and summary.primary is not None:
        texts.append(settings_text(summary))
    elif len(summary.attacks) > 1 and len(summary.recipes) > 1:
        texts.append(verdict_text(summary, hiding))
    if hiding.verdicts:
        write_rows(verdict_frame(summary, hiding), out / VERDICTS)
        files.append(out / VERDICTS)
    if (leaks := two_leaks(data, summary)) is not None:
        write_rows(leaks.frame(summary), out / TWO_LEAKS)
        files.append(out / TWO_LEAKS)
        texts.append("\n".join([ascii_text(leaks.sentence), *map(ascii_text, warnings_of(data))]))
    if looked := look_text(summary):
        texts.append(looked)
    if data.queries is not None:
        write_rows(data.queries, out / QUERIES)
        files.append(out / QUERIES)
    published = paper_comparison(data, summary)
    if published is not None:
        write_rows(published_frame(published), out / COMPARISON)
        texts.append(published_text(published))
        files.append(out / COMPARISON)
    return "\n\n".join(texts), files, verdicts_for_mlflow(data, summary, hiding)


def verdicts_for_mlflow(data: ReportData, summary: Summary, hiding: HidingVerdicts) -> Verdicts:
    """What the sweep's runs in MLflow say: the report's verdicts, first sentence and table of recipes."""
    table = markdown_table(printed_tables(summary, data.title, data.protocol)[0])
    return verdicts_of(summary, hiding, ascii_text(f"{find(data, summary).answer[0]}\n\n{table}"))


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
