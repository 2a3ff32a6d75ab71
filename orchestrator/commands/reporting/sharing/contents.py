"""What an export holds: tables, figures, reconstructions and references of one sweep, as named files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import pandas as pd

from smoothsweep.core.errors import InputError
from smoothsweep.orchestrator.commands.reporting.facts import prior_licences
from smoothsweep.orchestrator.commands.reporting.sharing.bibliography import bibliography_of
from smoothsweep.orchestrator.commands.reporting.sharing.reconstructions import (
    Choice,
    reconstruction_files,
    trials_to_export,
)
from smoothsweep.orchestrator.commands.reporting.sweep_report import contact_sheets, gather_report
from smoothsweep.orchestrator.page.drawing.colours import assign
from smoothsweep.orchestrator.page.drawing.sheets import png, sheet_image
from smoothsweep.orchestrator.page.figures.of_sweep import Figures
from smoothsweep.orchestrator.page.tables import csv_table, latex_tables, markdown_table
from smoothsweep.orchestrator.planning.trial import Trial
from smoothsweep.orchestrator.reading.leak.printed import printed_tables
from smoothsweep.orchestrator.reading.numbers.model import ReportData
from smoothsweep.orchestrator.reading.numbers.summary import Summary, summarise
from smoothsweep.orchestrator.reading.results import results_table
from smoothsweep.orchestrator.running.sweep_run import earlier_failures
from smoothsweep.orchestrator.store.common.base import Store
from smoothsweep.sweeps.loaded import LoadedSweep

TABLES = ("latex", "csv", "md")
FIGURES = ("pdf", "svg", "png")
BIBLIOGRAPHY = "references.bib"
OVERVIEW = "overview.png"
"""The figure of the report that shows photographs; an export has its parts."""


@dataclass(frozen=True, kw_only=True)
class SweepContents:
    """A sweep as it is exported: its trials, what a report shows of it, and its cells."""

    loaded: LoadedSweep
    trials: list[Trial]
    store: Store
    data: ReportData
    summary: Summary
    table: pd.DataFrame

    @property
    def name(self) -> str:
        """Name of the sweep."""
        return self.loaded.sweep.name


def gather_sweep(loaded: LoadedSweep, trials: list[Trial], store: Store, *, redact: bool = False) -> SweepContents:
    """Read what is there of a sweep. redact: classes get numbers for names. Raises InputError where nothing is."""
    table = results_table(trials, store, earlier_failures(store, loaded.sweep.name))
    if not (table["status"] == "done").any():
        raise InputError(f"{loaded.source}: expected a finished trial in {store.location}, got none")
    data, summary = gather_report(loaded, trials, store, table, store.sweep_folder(loaded.sweep.name))
    if redact:
        data = without_names(data)
        summary = summarise(data)
    return SweepContents(loaded=loaded, trials=trials, store=store, data=data, summary=summary, table=table)


def without_names(data: ReportData) -> ReportData:
    """The report's data with numbers for the names of classes, in the names' own order, which resampling goes by."""
    if data.per_class is None:
        return data
    known = sorted(data.per_class["class"].unique())
    numbers = {name: f"class {number:0{len(str(len(known)))}d}" for number, name in enumerate(known, start=1)}
    return replace(data, per_class=data.per_class.assign(**{"class": data.per_class["class"].map(numbers)}))


def table_files(sweep: SweepContents, kinds: tuple[str, ...]) -> Iterator[tuple[str, bytes]]:
    """The tables in these formats."""
    for table in printed_tables(sweep.summary, sweep.name, sweep.data.protocol):
        label = f"tab:{sweep.name}-{table.stem}"
        for kind in kinds:
            if kind == "latex":
                for ending, text in latex_tables(table, label).items():
                    yield f"tables/{table.stem}{ending}.tex", text.encode()
            else:
                write = {"csv": csv_table, "md": markdown_table}[kind]
                yield f"tables/{table.stem}.{kind}", write(table).encode()


def figure_files(sweep: SweepContents, kinds: tuple[str, ...]) -> Iterator[tuple[str, bytes]]:
    """The report's figures in these formats."""
    figures = Figures(data=sweep.data, summary=sweep.summary, colours=assign(sweep.summary))
    drawn = {"frontier.svg": figures.frontier(), **figures.files()} if kinds else {}
    for file, canvas in drawn.items():
        if canvas is not None and file != OVERVIEW:
            for kind in kinds:
                name = f"figures/{file.rpartition('.')[0]}.{kind}"
                yield name, canvas.file(name)


def image_files(sweep: SweepContents, choice: Choice, *, sheets: bool = True) -> Iterator[tuple[str, bytes]]:
    """Reconstructions, and sheets of them beside training images. sheets: False where a report has those already.

    Raises InputError where the store has no reconstructions.
    """
    pictures = trials_to_export(choice, sweep.trials, sweep.data.axes, sweep.summary, sweep.store)
    if choice == "none":
        return
    if not pictures:
        raise InputError(f"--images {choice}: expected reconstructions in {sweep.store.location}, got none")
    yield from reconstruction_files(sweep.name, pictures, sweep.store)
    drawn = contact_sheets(sweep.trials, sweep.store, sweep.data, sweep.summary) if sheets else ()
    for number, sheet in enumerate(drawn, start=1):
        yield f"images/sheet-{number}.png", png(sheet_image(sheet))


def references(sweep: SweepContents) -> tuple[str, bytes]:
    """The BibTeX file of everything that the sweep used."""
    return BIBLIOGRAPHY, bibliography_of(sweep.trials).encode()


def overview_facts(sweep: SweepContents, **more: Any) -> Mapping[str, Any]:
    """What the list of an export's files says of the sweep."""
    done = int((sweep.data.results["status"] == "done").sum())
    return {
        "sweep": sweep.name,
        "protocol": sweep.data.protocol,
        "code": sweep.data.facts["Code"],
        "trials": {"finished": done, "planned": len(sweep.data.results)},
        **({"licences": licences} if (licences := prior_licences(sweep.trials)) else {}),
        **more,
    }
