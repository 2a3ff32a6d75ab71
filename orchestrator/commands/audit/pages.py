"""What an audit leaves: audit.html, audit.pdf and audit.json, from what is in its store."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from smoothsweep.core.errors import InputError
from smoothsweep.core.files import write_file
from smoothsweep.orchestrator.commands.reporting.sweep_report import report_data
from smoothsweep.orchestrator.page.audit import EXPOSED, Portrait, audit_page, audit_pdf
from smoothsweep.orchestrator.page.stored import class_names, reconstruction, training_image, training_labels
from smoothsweep.orchestrator.planning.trial import Trial, inversion_stages
from smoothsweep.orchestrator.planning.trials import trials_of
from smoothsweep.orchestrator.reading.audit.as_json import audit_json
from smoothsweep.orchestrator.reading.audit.result import Audit, AuditNotes, read_audit
from smoothsweep.orchestrator.reading.numbers.summary import recipe_label, summarise
from smoothsweep.orchestrator.reading.results import results_table
from smoothsweep.orchestrator.store.common.base import Store
from smoothsweep.orchestrator.store.opening import open_store
from smoothsweep.sweeps.imported import ImportedClassifier, TargetCard
from smoothsweep.sweeps.load import load_sweep


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
) -> None:
    """Each file replaces its predecessor in one step. untried, unfit, own_test, planned: as of `AuditNotes`.

    Raises InputError where no attack has been judged.
    """
    loaded, store = load_sweep(sweep), open_store(location)
    trials = trials_of(loaded, store)
    data = report_data(loaded, trials, store, results_table(trials, store, {}), out)
    summary = summarise(data)
    names = class_names(store, inversion_stages(trials[0].settings, trials[0].seed))
    own, trained = (
        [trial for trial in trials if isinstance(trial.settings.recipe, ImportedClassifier) is is_own]
        for is_own in (True, False)
    )
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
            recipe=recipe_label(data.axes, own[0].cell.axes),
            architecture=trained[0].settings.recipe.architecture if trained else "",
            epochs=trained[0].settings.recipe.epochs if trained else 0,
            is_program=card.outside is not None,
        ),
    )
    if audit is None:
        raise InputError(f"audit {name}: no attack was judged; the lines above say why")
    best = set(summary.frame.loc[audit.strongest.row, "trials"])
    portraits = [] if anonymous else _portraits(audit, next(trial for trial in trials if trial.id in best), store)
    given = {"name": name, "facts": dict(data.facts), "portraits": portraits, "anonymous": anonymous}
    source = {"file": card.source.file, "sha256": card.source.sha256} if card.source else {}
    described = {"name": name, "architecture": card.architecture, "image_size": card.image_size, **source}
    write_file(out / "audit.pdf", audit_pdf(audit, **given))
    write_file(out / "audit.json", json.dumps(audit_json(audit, described, anonymous=anonymous), indent=1) + "\n")
    write_file(out / "audit.html", audit_page(audit, **given))


def _portraits(audit: Audit, trial: Trial, store: Store) -> list[Portrait]:
    """Of the people exposed most, a photograph and what the strongest attack was surest of."""
    stages = inversion_stages(trial.settings, trial.seed)
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
