"""Write audit.html, audit.pdf and audit.json from what is in the store of an audit."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from smoothsweep.core.errors import InputError
from smoothsweep.core.external.kinds import KINDS, is_external
from smoothsweep.core.files import write_file
from smoothsweep.orchestrator.commands.audit.judges import FACE
from smoothsweep.orchestrator.commands.reporting.report import report_data
from smoothsweep.orchestrator.page.audit import EXPOSED, Portrait, audit_page, audit_pdf
from smoothsweep.orchestrator.page.pictures import class_names, reconstruction, training_image, training_labels
from smoothsweep.orchestrator.planning.trial import Trial, inversion_stages, trials_of
from smoothsweep.orchestrator.reading.audit.as_json import audit_json
from smoothsweep.orchestrator.reading.audit.members import AuditMembership, read_membership
from smoothsweep.orchestrator.reading.audit.result import Audit, AuditNotes, RunNotes, read_audit, with_second
from smoothsweep.orchestrator.reading.audit.shadows import read_shadows
from smoothsweep.orchestrator.result.data import ReportData
from smoothsweep.orchestrator.result.leaks import asked_by_parts
from smoothsweep.orchestrator.result.rows import results_table
from smoothsweep.orchestrator.result.summary import Summary, recipe_label, summarise
from smoothsweep.orchestrator.store.base import Store
from smoothsweep.orchestrator.store.opening import open_store
from smoothsweep.sweeps.imported import ImportedClassifier, TargetCard
from smoothsweep.sweeps.load import load_sweep
from smoothsweep.sweeps.loaded import LoadedSweep, as_inversion

NAMES_PLACES = ("Sweep file", "Store", "Devices")
"""Facts of a sweep that name folders and machines, which `--redact` leaves out."""


@dataclass(frozen=True, kw_only=True)
class AuditContext:
    """What the pages of an audit need besides its store.

    Attributes:
        name: The model's name on the pages.
        card: How the model is read.
        anonymous: Write no pictures of people and no names.
        notes: Sentences and facts of this run that no artifact holds.
        second: The sweep file in which a second embedder judges; None without one.
        member_access: What an attacker on membership sees; None where membership is not measured.
        shadowed: The sweep with the shadow models that attacked the model; None without one.
        without_shadows: Why there are no shadow models; empty for the usual reason.
    """

    name: str
    card: TargetCard
    anonymous: bool = False
    notes: RunNotes
    second: Path | None = None
    member_access: str | None = None
    shadowed: LoadedSweep | None = None
    without_shadows: str = ""


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


def read_stored(loaded: LoadedSweep, store: Store, out: Path, context: AuditContext) -> StoredAudit:
    """The result of an audit from what a store holds of its sweep. Raises InputError where nothing has been judged."""
    trials = trials_of(loaded, store)
    data = report_data(loaded, trials, store, results_table(trials, store, {}), out)
    summary = summarise(data)
    audit = read_audit(data, summary, _notes(context, trials, store, data, summary))
    if audit is not None and context.second is not None:
        audit = _with_second(audit, context.second, store, out)
    if audit is None:
        raise InputError(f"audit {context.name}: nothing was judged; the lines above say why")
    return StoredAudit(audit=audit, trials=trials, summary=summary, facts=data.facts)


def write_audit(sweep: Path, location: str, out: Path, context: AuditContext) -> None:
    """Write the three files from what the store at `location` holds; each replaces its predecessor in one step.

    Raises InputError where nothing has been judged.
    """
    store, anonymous = open_store(location), context.anonymous
    stored = read_stored(load_sweep(sweep), store, out, context)
    portraits = [] if anonymous else _portraits(stored.audit, stored.strongest[0], store)
    facts = {key: words for key, words in stored.facts.items() if not anonymous or key not in NAMES_PLACES}
    given = {"name": context.name, "facts": facts, "portraits": portraits, "anonymous": anonymous}
    write_file(out / "audit.pdf", audit_pdf(stored.audit, **given))
    described = _described(context.name, context.card, anonymous=anonymous)
    told = audit_json(stored.audit, described, anonymous=anonymous)
    write_file(out / "audit.json", json.dumps(told, indent=1) + "\n")
    write_file(out / "audit.html", audit_page(stored.audit, **given))


def _notes(context: AuditContext, trials: list[Trial], store: Store, data: ReportData, summary: Summary) -> AuditNotes:
    """The facts of the audit that its numbers do not hold: names, recipe, network, membership."""
    card, recipes = context.card, [as_inversion(trial.settings).recipe for trial in trials]
    imported = next(
        trial for trial, recipe in zip(trials, recipes, strict=True) if isinstance(recipe, ImportedClassifier)
    )
    trained = next((recipe for recipe in recipes if not isinstance(recipe, ImportedClassifier)), None)
    access = context.member_access
    members = read_membership(trials, store, data, summary, access) if access else None
    return AuditNotes(
        **vars(context.notes),
        names=class_names(store, inversion_stages(as_inversion(trials[0].settings), trials[0].seed)),
        classes=card.num_classes,
        recipe=recipe_label(data.axes, imported.cell.axes),
        architecture=trained.architecture if trained else "",
        epochs=trained.epochs if trained else 0,
        is_program=card.outside is not None,
        is_enrolled=is_external(card.architecture) and KINDS[card.architecture].enrols,
        asked_once=asked_by_parts(trials, store),
        membership=_with_shadows(members, context.shadowed, store, context.without_shadows) if members else None,
    )


def _described(name: str, card: TargetCard, *, anonymous: bool) -> dict[str, Any]:
    """The entry of the model in audit.json; without the name of its file where anonymous."""
    source = {"file": card.source.file, "sha256": card.source.sha256} if card.source else {}
    if anonymous:
        source.pop("file", None)
    return {"name": name, "architecture": card.architecture, "image_size": card.image_size, **source}


def _with_shadows(
    membership: AuditMembership, shadowed: LoadedSweep | None, store: Store, without: str
) -> AuditMembership:
    """Add to membership the attacks by shadow models, or why there are none."""
    shadows = None if shadowed is None else read_shadows(trials_of(shadowed, store), store)
    return replace(membership, shadows=shadows, without_shadows=without or membership.without_shadows)


def _with_second(audit: Audit, second: Path, store: Store, out: Path) -> Audit:
    """Add a second embedder's judgement of the same reconstructions, where the store holds it."""
    loaded = load_sweep(second)
    trials = trials_of(loaded, store)
    judge: Any = as_inversion(trials[0].settings).judges.built.get(FACE)
    summary = summarise(report_data(loaded, trials, store, results_table(trials, store, {}), out))
    return audit if judge is None else with_second(audit, summary, judge.name)


def _portraits(audit: Audit, trial: Trial, store: Store) -> list[Portrait]:
    """Portraits of the people exposed most: a photograph, and the strongest attack's most confident reconstruction."""
    stages = inversion_stages(as_inversion(trial.settings), trial.seed)
    labels = training_labels(store, stages)
    return [
        Portrait(
            label=person.label,
            photograph=_upright(training_image(store, stages, int(np.flatnonzero(labels == person.label)[0]))),
            reconstruction=_upright(reconstruction(store, stages, person.label, 0)),
        )
        for person in audit.people[:EXPOSED]
        if person.share > 0
    ]


def _upright(image: np.ndarray) -> np.ndarray:
    """Move the channels of a uint8 image [3, H, W] to the end: [H, W, 3]."""
    return np.ascontiguousarray(image.transpose(1, 2, 0))
