"""What an audit's store holds, and audit.html, audit.pdf and audit.json of it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from fpdf import FPDF, TextStyle
from matplotlib import get_data_path

from smoothsweep.core.errors import InputError
from smoothsweep.core.external.kinds import KINDS, is_external
from smoothsweep.core.files import write_file
from smoothsweep.orchestrator.commands.audit.subject import FACE
from smoothsweep.orchestrator.commands.reporting.report import report_data
from smoothsweep.orchestrator.page.pictures import (
    class_names,
    data_uri,
    reconstruction,
    training_image,
    training_labels,
)
from smoothsweep.orchestrator.page.render import fill
from smoothsweep.orchestrator.planning.trial import Trial, inversion_stages, trials_of
from smoothsweep.orchestrator.result.audit import (
    Audit,
    AuditNotes,
    accuracy,
    audit_sentences,
    read_audit,
    with_second,
)
from smoothsweep.orchestrator.result.audit_membership import read_membership, read_shadows, shown_rate, verdict_words
from smoothsweep.orchestrator.result.format import number
from smoothsweep.orchestrator.result.leaks import AMONG, among_words, asked_by_parts, rate_words
from smoothsweep.orchestrator.result.rows import results_table
from smoothsweep.orchestrator.result.standing import HEAD
from smoothsweep.orchestrator.result.summary import Summary, recipe_label, summarise
from smoothsweep.orchestrator.store.base import Store
from smoothsweep.sweeps.expand import LoadedSweep, as_inversion
from smoothsweep.sweeps.imported import ImportedClassifier, TargetCard
from smoothsweep.sweeps.load import load_sweep
from smoothsweep.sweeps.training import Recipe

JSON_VERSION = 2
NAMES_PLACES = ("Sweep file", "Store", "Devices")
"""Facts of a sweep that name folders and machines, which `--redact` leaves out."""

EXPOSED = 8
"""People shown with their pictures, the surest of the most exposed first."""

PAPER = {
    "h1": TextStyle(font_size_pt=16, color=(25, 25, 25), b_margin=2, t_margin=4),
    "h2": TextStyle(font_size_pt=11, color=(25, 25, 25), b_margin=1, t_margin=3),
}
"""Headings of audit.pdf."""


# From the store


@dataclass(frozen=True, kw_only=True)
class StoredAudit:
    """An audit as a store holds it: its result, and the trials and cells that it was read from."""

    audit: Audit
    trials: list[Trial]
    summary: Summary
    facts: Mapping[str, str]

    @property
    def strongest(self) -> list[Trial]:
        """The trials of the strongest attack, one for each seed."""
        best = set(self.summary.frame.loc[self.audit.strongest.row, "trials"])
        return sorted((trial for trial in self.trials if trial.id in best), key=lambda trial: trial.seed)


def read_stored(
    loaded: LoadedSweep,
    store: Store,
    out: Path,
    card: TargetCard,
    notes: AuditNotes,
    *,
    measures_membership: bool,
    shadowed: LoadedSweep | None = None,
    without_shadows: str = "",
    redact: bool = False,
) -> StoredAudit:
    """The result of an audit from what a store holds of its sweep.

    Args:
        out: The folder that links are relative to.
        card: How the model is read.
        notes: What this run knows.
        shadowed: The sweep with the shadow models that attacked the model; None without one.
        without_shadows: Why there are no shadow models; empty for the usual reason.
        redact: Give people numbers in the place of names.

    Raises InputError where nothing has been judged.
    """
    trials = trials_of(loaded, store)
    data = report_data(loaded, trials, store, results_table(trials, store, {}), out)
    summary, settings = summarise(data), [as_inversion(trial.settings) for trial in trials]
    models = [isinstance(one.recipe, ImportedClassifier) for one in settings]
    trained = next((one.recipe for one, is_model in zip(settings, models, strict=True) if not is_model), None)
    named, members = [(recipe_label(data.axes, trial.cell.axes), trial) for trial in trials], None
    if measures_membership:
        words = verdict_words(data, summary, notes.access)
        members = read_membership(named, store, notes.access, words)
    if members is not None:
        shadows = None if shadowed is None else read_shadows(trials_of(shadowed, store), store)
        members = replace(members, shadowed=shadows, without_shadows=without_shadows or members.without_shadows)
    names = class_names(store, inversion_stages(settings[0], trials[0].seed))
    notes = replace(
        notes,
        names=[f"person {label}" for label in range(len(names))] if redact else names,
        classes=card.num_classes,
        recipe=named[models.index(True)][0],
        architecture=trained.architecture if trained else "",
        epochs=trained.epochs if isinstance(trained, Recipe) else 0,
        is_program=card.outside is not None,
        is_enrolled=is_external(card.architecture) and KINDS[card.architecture].enrols,
        asked_once=asked_by_parts(trials, store),
        membership=members,
    )
    audit = read_audit(data, summary, notes)
    if audit is None:
        raise InputError("audit: nothing was judged; the lines above say why")
    return StoredAudit(audit=audit, trials=trials, summary=summary, facts=data.facts)


def add_second(audit: Audit, sweep: Path, store: Store, out: Path) -> Audit:
    """Add a second embedder's judgement of the same reconstructions, where the store holds it."""
    loaded = load_sweep(sweep)
    trials = trials_of(loaded, store)
    judge: Any = as_inversion(trials[0].settings).judges.built.get(FACE)
    summary = summarise(report_data(loaded, trials, store, results_table(trials, store, {}), out))
    return audit if judge is None else with_second(audit, summary, judge.name)


Portraits = Mapping[int, tuple[np.ndarray, np.ndarray]]
"""Label of a person -> a photograph and a reconstruction, uint8 [H, W, 3] each."""


def portraits_of(stored: StoredAudit, store: Store) -> Portraits:
    """Of the people exposed most: a photograph, and the strongest attack's most confident reconstruction."""
    trial = stored.strongest[0]
    stages = inversion_stages(as_inversion(trial.settings), trial.seed)
    labels, found = training_labels(store, stages), {}
    for person in stored.audit.people[:EXPOSED]:
        if person.share > 0:
            photograph = training_image(store, stages, int(np.flatnonzero(labels == person.label)[0]))
            drawn = reconstruction(store, stages, person.label, 0)
            found[person.label] = (photograph.transpose(1, 2, 0).copy(), drawn.transpose(1, 2, 0).copy())
    return found


# Pages


def write_audit(stored: StoredAudit, store: Store, out: Path, card: TargetCard, name: str, *, redact: bool) -> None:
    """Write the three files; each replaces its predecessor in one step. redact: without names, places and pictures."""
    facts = {key: words for key, words in stored.facts.items() if not redact or key not in NAMES_PLACES}
    shown = {"name": name, "facts": facts, "portraits": {} if redact else portraits_of(stored, store)}
    write_file(out / "audit.pdf", audit_pdf(stored.audit, **shown))
    model = {"name": name, "architecture": card.architecture, "image_size": card.image_size}
    if card.source:
        model |= {"sha256": card.source.sha256, **({} if redact else {"file": card.source.file})}
    told = {"version": JSON_VERSION, "model": model, **stored.audit.dump()}
    write_file(out / "audit.json", json.dumps(told, indent=1) + "\n")
    write_file(out / "audit.html", audit_page(stored.audit, **shown))


def audit_page(audit: Audit, *, name: str, facts: Mapping[str, str], portraits: Portraits) -> str:
    """audit.html, for readers who want to know. portraits: of the people exposed most."""
    return fill("audit.html", **_shown(audit, name, facts, portraits))


def audit_pdf(audit: Audit, *, name: str, facts: Mapping[str, str], portraits: Portraits) -> bytes:
    """audit.pdf, for those who decide: the finding and what each attacker gets; who is exposed, and what is not said.

    A4, in a font that knows other scripts than Latin.
    """
    paper, fonts = FPDF(format="A4"), Path(get_data_path()) / "fonts" / "ttf"
    for style, file in (("", "DejaVuSans.ttf"), ("B", "DejaVuSans-Bold.ttf")):
        paper.add_font("sans", style, str(fonts / file))
    paper.set_margin(18)
    paper.set_title(f"Audit of {name}")
    paper.set_creator("smoothsweep")
    paper.add_page()
    paper.set_font("sans", size=8.5)
    html = fill("audit_pdf.html", **_shown(audit, name, facts, portraits))
    paper.write_html(html, font_family="sans", tag_styles=PAPER)
    return bytes(paper.output())


def _shown(audit: Audit, name: str, facts: Mapping[str, str], portraits: Portraits) -> dict[str, Any]:
    """What the templates of both pages show."""
    return {
        "audit": audit,
        "name": name,
        "facts": facts,
        "said": audit_sentences(audit),
        "portraits": {label: tuple(map(data_uri, pair)) for label, pair in portraits.items()},
        "share": lambda value: number(audit.spec, value),
        "accuracy": accuracy,
        "rate_words": rate_words,
        "spec": audit.spec,
        "parts": HEAD,
        "matched_words": f"matched among {audit.classes}",
        "colour_rules": "",
        "data": {"title": f"Audit of {name}"},
        "exposed": audit.people[:EXPOSED],
        "among": among_words,
        "among_count": AMONG,
        "shown_rate": shown_rate,
    }
