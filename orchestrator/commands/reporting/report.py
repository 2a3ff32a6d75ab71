"""The report of a sweep in the store: gathers what a result shows, and writes table, page and figures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import pandas as pd

from smoothsweep.core.errors import InputError
from smoothsweep.core.external.kinds import is_external
from smoothsweep.core.judges.columns import BY_KEY
from smoothsweep.core.judges.table import stage_that_draws
from smoothsweep.core.plugins import plugin_version, with_plugin_name
from smoothsweep.core.readers.tables import read_rows
from smoothsweep.orchestrator.page.pictures import comparison_sheet
from smoothsweep.orchestrator.page.render import UNNAMED_ATTACK, extremes, figure_files, write_report
from smoothsweep.orchestrator.page.tables import terminal_text
from smoothsweep.orchestrator.planning.state import read_failures
from smoothsweep.orchestrator.planning.trial import Trial, trials_of
from smoothsweep.orchestrator.result.data import ContactSheet, FeatureView, PaperReference, ReportData
from smoothsweep.orchestrator.result.format import listing
from smoothsweep.orchestrator.result.leaks import asked_by_parts
from smoothsweep.orchestrator.result.rows import (
    baseline_axes,
    by_attack,
    first_finished,
    least_of_data,
    per_class_rows,
    relative_links,
    results_table,
    surrogate_lines,
    sweep_axes,
    write_results,
    write_rows,
)
from smoothsweep.orchestrator.result.summary import recipe_label
from smoothsweep.orchestrator.result.sweep_result import SweepResult, result_of, verdict_rows
from smoothsweep.orchestrator.search.agenda import spent
from smoothsweep.orchestrator.search.record import search_view
from smoothsweep.orchestrator.stages.stage import code_version, with_ancestors
from smoothsweep.orchestrator.store.base import Store
from smoothsweep.orchestrator.store.opening import open_existing_store
from smoothsweep.sweeps.expand import LoadedSweep, as_inversion
from smoothsweep.sweeps.imported import ImportedClassifier
from smoothsweep.sweeps.load import load_sweep
from smoothsweep.sweeps.paper_tables import standing
from smoothsweep.sweeps.schema import InversionSweep, ToySweep


def sweep_facts(loaded: LoadedSweep, trials: list[Trial], store: Store) -> dict[str, str]:
    """Name -> value, as the report's section on the sweep lists them: what it is made of, and what it took."""
    seeds, looks = ", ".join(map(str, loaded.sweep.every_seed)), loaded.sweep.looks
    seeds = seeds if looks is None else f"{seeds}; looks at {listing(map(str, looks.looks))}"
    facts = {"Sweep file": loaded.source, "Store": store.location, "Seeds": seeds, "Code": code_version()}
    facts |= members_used([as_inversion(trial.settings) for trial in trials])
    named, stages = facts["Private data"], with_ancestors([stage for trial in trials for stage in trial.stages])
    manifests = [store.manifest(stage) for stage in stages if store.has(stage)]
    for manifest in manifests:
        counted = {key: value for key, value in manifest["metrics"].items() if value is not None}
        if manifest["stage"] == "data" and {"num_classes", "num_train", "num_test"} <= counted.keys():
            images = f"{counted['num_train']:.0f} training and {counted['num_test']:.0f} test images"
            facts["Private data"] = f"{named}, {counted['num_classes']:.0f} classes, {images}"
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


def write_sweep_report(
    loaded: LoadedSweep, trials: list[Trial], store: Store, failures: dict[str, str], out: Path
) -> tuple[str, list[Path], SweepResult]:
    """Write results.parquet, report.html and figures into `out`; returns the table as text, the files, the result."""
    table = write_results(trials, store, failures, out, sweep_axes(loaded, trials))
    data = report_data(loaded, trials, store, table, out)
    result = result_of(data)
    return *write_gathered(replace(data, sheets=contact_sheets(trials, store, data, result)), result, out), result


def write_gathered(data: ReportData, result: SweepResult, out: Path) -> tuple[str, list[Path]]:
    """The page, the figures and the tables beside results.parquet; the table as text, and the files."""
    files = [out / "results.parquet", write_report(data, out, result), *figure_files(out)]
    named = {"verdicts": verdict_rows(result), "two_leaks": result.membership, "queries": result.queries}
    frames = {name: frame for name, frame in named.items() if len(frame)}
    if result.sentences["published"]:
        frames["published_comparison"] = result.published
    for name, frame in frames.items():
        write_rows(frame, out / f"{name}.parquet")
        files.append(out / f"{name}.parquet")
    return terminal_text(result), files


def contact_sheets(
    trials: list[Trial], store: Store, data: ReportData, result: SweepResult
) -> tuple[ContactSheet, ...]:
    """One per attack, of the first seed, with the recipes that a report shows pictures of in columns."""
    shown, compared, sheets = {*result.facts["pictured"], *extremes(result)}, compared_trials(trials), []
    for attack, recipes in by_attack(
        [trial for trial in compared if trial.seed == compared[0].seed], data.axes
    ).items():
        chosen = {recipe: cells[0] for recipe, cells in recipes.items() if recipe in shown}
        sheets.append(comparison_sheet([*chosen.values()], [*chosen], store, title=attack or UNNAMED_ATTACK))
    return tuple(sheet for sheet in sheets if sheet is not None)


def report_data(loaded: LoadedSweep, trials: list[Trial], store: Store, table: pd.DataFrame, out: Path) -> ReportData:
    """Everything the page shows but the contact sheets, read from the artifacts."""
    axes = sweep_axes(loaded, trials)
    per_class, people = per_class_rows(trials, store), least_of_data(trials, store, "num_classes")
    phase = table["phase"].where(table["phase"].isin(("sweep", "reaudit")), "other")
    rows = {name: found.reset_index(drop=True) for name, found in table.groupby(phase)}
    compared = compared_trials(trials)
    known = partial(first_finished, compared, axes, store)
    leak, (device_s, wall_s) = loaded.sweep.leak_searched, spent(store, loaded.sweep.name)
    return ReportData(
        title=loaded.sweep.name,
        axes=axes,
        protocol=loaded.sweep.protocol,
        facts=sweep_facts(loaded, trials, store),
        intro=tuple(paragraph for paragraph in loaded.intro.split("\n\n") if paragraph),
        results=rows.get("sweep", table[:0]),
        fresh=rows.get("reaudit"),
        others=rows.get("other"),
        per_class=per_class if len(per_class) else None,
        defenses={trial.id: defense for trial in trials if (defense := trial.stated_defense)},
        baseline=baseline_axes(loaded),
        # The leak that a search drives down decides its report too.
        primary=leak if leak in BY_KEY and leak in table and table[leak].notna().any() else None,
        min_test_acc=loaded.sweep.accuracy_needed,
        accuracy_margin=loaded.sweep.accuracy_margin,
        reasons=_reasons(table),
        paper=_paper(loaded, compared),
        search=search_view(loaded, store, partial(recipe_label, axes)),
        histories={r: read_rows(store.needed_file(stage, "history.parquet")) for r, stage in known("target").items()},
        features={
            recipe: FeatureView(
                points=read_rows(store.needed_file(stage, "map.parquet")),
                distances=read_rows(store.needed_file(stage, "distances.parquet")),
            )
            for recipe, stage in known(stage_that_draws("feature_map")).items()
        },
        gradient_curves={
            recipe: read_rows(store.needed_file(stage, "gradients.parquet"))
            for recipe, stage in known(stage_that_draws("gradient_curves")).items()
        },
        links={
            t.id: relative_links(t, store, out, workers=float(as_inversion(t.settings).recipe.workers)) for t in trials
        },
        spent=(device_s, wall_s) if wall_s else None,
        real_images=least_of_data(trials, store, "num_test"),
        looks=loaded.sweep.looks,
        asked=asked_by_parts(compared, store),
        people=people,
        warnings=surrogate_lines(trials, store, people),
    )


def compared_trials(trials: Sequence[Trial]) -> list[Trial]:
    """The trials that recipes are compared by, without cheap attacks and fresh seeds."""
    return [trial for trial in trials if trial.phase == "sweep"]


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


def sweep_to_share(sweep_file: Path, overrides: list[str], location: str) -> tuple[LoadedSweep, list[Trial], Store]:
    """A sweep that has results, its trials and its store. Raises InputError where there is nothing to share."""
    loaded = load_sweep(sweep_file, overrides)
    if isinstance(loaded.sweep, ToySweep):
        raise InputError(f"{loaded.source}: expected a sweep that trains and attacks models, got {loaded.sweep.name}")
    store = open_existing_store(location)
    trials = trials_of(loaded, store)
    if not trials:
        raise InputError(f"{loaded.source}: expected a search that has proposed something in {location}, got none")
    return loaded, trials, store


@dataclass(frozen=True, kw_only=True)
class SweepContents:
    """A sweep in a store: its trials, what a report shows of it, and its result."""

    loaded: LoadedSweep
    trials: list[Trial]
    store: Store
    data: ReportData
    result: SweepResult
    table: pd.DataFrame

    @property
    def name(self) -> str:
        """Name of the sweep."""
        return self.loaded.sweep.name


def gather_sweep(loaded: LoadedSweep, trials: list[Trial], store: Store, *, redact: bool = False) -> SweepContents:
    """Read what is there of a sweep. redact: classes get numbers for names. Raises InputError where nothing is."""
    table = results_table(trials, store, read_failures(store, loaded.sweep.name))
    if not (table["status"] == "done").any():
        raise InputError(f"{loaded.source}: expected a finished trial in {store.location}, got none")
    data = report_data(loaded, trials, store, table, store.sweep_folder(loaded.sweep.name))
    data = without_names(data) if redact else data
    return SweepContents(loaded=loaded, trials=trials, store=store, data=data, result=result_of(data), table=table)


def without_names(data: ReportData) -> ReportData:
    """The report's data with numbers for the names of classes, in the names' own order, which resampling goes by."""
    if data.per_class is None:
        return data
    known = sorted(data.per_class["class"].unique())
    numbers = {name: f"class {number:0{len(str(len(known)))}d}" for number, name in enumerate(known, start=1)}
    return replace(data, per_class=data.per_class.assign(**{"class": data.per_class["class"].map(numbers)}))
