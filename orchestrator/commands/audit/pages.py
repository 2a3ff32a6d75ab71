"""What an audit leaves: audit.html, audit.pdf and audit.json, from what is in its store."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from smoothsweep.core.errors import InputError
from smoothsweep.core.external.kinds import KINDS, is_external
from smoothsweep.core.files import write_file
from smoothsweep.orchestrator.commands.audit.judges import FACE
from smoothsweep.orchestrator.commands.reporting.sweep_report import report_data
from smoothsweep.orchestrator.page.audit import EXPOSED, Portrait, audit_page, audit_pdf
from smoothsweep.orchestrator.page.stored import class_names, reconstruction, training_image, training_labels
from smoothsweep.orchestrator.planning.trial import Trial, inversion_stages
from smoothsweep.orchestrator.planning.trials import trials_of
from smoothsweep.orchestrator.reading.audit.as_json import audit_json
from smoothsweep.orchestrator.reading.audit.members import AuditMembership, read_membership
from smoothsweep.orchestrator.reading.audit.result import Audit, AuditNotes, read_audit
from smoothsweep.orchestrator.reading.audit.second import with_second
from smoothsweep.orchestrator.reading.audit.shadows import read_shadows
from smoothsweep.orchestrator.reading.leak.queries import asked_by_parts
from smoothsweep.orchestrator.reading.numbers.summary import recipe_label, summarise
from smoothsweep.orchestrator.reading.results import results_table
from smoothsweep.orchestrator.store.common.base import Store
from smoothsweep.orchestrator.store.opening import open_store
from smoothsweep.sweeps.imported import ImportedClassifier, TargetCard
from smoothsweep.sweeps.load import load_sweep
from smoothsweep.sweeps.loaded import LoadedSweep, inversion

NAMES_PLACES = ("Sweep file", "Store", "Devices")
"""Facts of a sweep that name folders and machines: not for sharing."""


def write_audit(
    sweep: Path,
    location: str,
    out: Path,
    *,
    name: str,
    card: TargetCard,
    anonymous: bool,
    untried: tuple[str, ...],
    unfit: tuple[str, ...],
    own_test: bool,
    planned: Mapping[str, float],
    strangers: int | None,
    second: Path | None,
    told: tuple[str, ...],
    member_access: str | None,
    unmeasured: tuple[str, ...],
    shadowed: LoadedSweep | None,
    without_shadows: str,
) -> None:
    """Each file replaces its predecessor in one step. untried, unfit, own_test, planned, strangers, told,
    unmeasured: as of `AuditNotes`. second: the sweep file of a second embedder's judging, None without.
    member_access: what an attacker on membership sees; None where nobody asked for it. shadowed: the sweep by whose
    shadow models it was attacked, None without; without_shadows: why there are none, empty for the usual reason.

    Raises InputError where nothing has been judged.
    """
    loaded, store = load_sweep(sweep), open_store(location)
    trials = trials_of(loaded, store)
    data = report_data(loaded, trials, store, results_table(trials, store, {}), out)
    summary = summarise(data)
    names = class_names(store, inversion_stages(inversion(trials[0].settings), trials[0].seed))
    own = next(trial for trial in trials if isinstance(inversion(trial.settings).recipe, ImportedClassifier))
    every = (inversion(trial.settings).recipe for trial in trials)
    trained = next((recipe for recipe in every if not isinstance(recipe, ImportedClassifier)), None)
    members = read_membership(trials, store, data, summary, member_access) if member_access else None
    audit = read_audit(
        data,
        summary,
        AuditNotes(
            names=names,
            classes=card.num_classes,
            untried=untried,
            unfit=unfit,
            own_test=own_test,
            planned=planned,
            strangers=strangers,
            told=told,
            recipe=recipe_label(data.axes, own.cell.axes),
            architecture=trained.architecture if trained else "",
            epochs=trained.epochs if trained else 0,
            is_program=card.outside is not None,
            is_enrolled=is_external(card.architecture) and KINDS[card.architecture].enrols,
            asked_once=asked_by_parts(trials, store),
            membership=_with_shadows(members, shadowed, store, without_shadows) if members else None,
            unmeasured=unmeasured,
        ),
    )
    if audit is not None and second is not None:
        audit = _with_second(audit, second, store, out)
    if audit is None:
        raise InputError(f"audit {name}: nothing was judged; the lines above say why")
    best = set(summary.frame.loc[audit.strongest.row, "trials"])
    portraits = [] if anonymous else _portraits(audit, next(trial for trial in trials if trial.id in best), store)
    facts = {key: words for key, words in data.facts.items() if not anonymous or key not in NAMES_PLACES}
    given = {"name": name, "facts": facts, "portraits": portraits, "anonymous": anonymous}
    write_file(out / "audit.pdf", audit_pdf(audit, **given))
    described = _described(name, card, anonymous=anonymous)
    write_file(out / "audit.json", json.dumps(audit_json(audit, described, anonymous=anonymous), indent=1) + "\n")
    write_file(out / "audit.html", audit_page(audit, **given))


def _described(name: str, card: TargetCard, *, anonymous: bool) -> dict[str, Any]:
    """The model as audit.json has it; without its file's name where nobody is to be named."""
    source = {"file": card.source.file, "sha256": card.source.sha256} if card.source else {}
    if anonymous:
        source.pop("file", None)
    return {"name": name, "architecture": card.architecture, "image_size": card.image_size, **source}


def _with_shadows(found: AuditMembership, shadowed: LoadedSweep | None, store: Store, without: str) -> AuditMembership:
    """Membership with what shadow models show of it, or why there are none."""
    shadows = None if shadowed is None else read_shadows(trials_of(shadowed, store), store)
    return replace(found, shadows=shadows, without_shadows=without or found.without_shadows)


def _with_second(audit: Audit, second: Path, store: Store, out: Path) -> Audit:
    """The audit with what a second embedder says of the same reconstructions, where it has judged them."""
    loaded = load_sweep(second)
    trials = trials_of(loaded, store)
    judge: Any = inversion(trials[0].settings).judges.built.get(FACE)
    summary = summarise(report_data(loaded, trials, store, results_table(trials, store, {}), out))
    return audit if judge is None else with_second(audit, summary, judge.name)


def _portraits(audit: Audit, trial: Trial, store: Store) -> list[Portrait]:
    """Of the people exposed most, a photograph and what the strongest attack was surest of."""
    stages = inversion_stages(inversion(trial.settings), trial.seed)
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
    """uint8 [3, H, W] as [H, W, 3]."""
    return np.ascontiguousarray(image.transpose(1, 2, 0))
