"""What an audit's store holds, and audit.html, audit.pdf and audit.json of it."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from fpdf import FPDF, TextStyle
from matplotlib import get_data_path

from smoothsweep.core.attacks.shared.base import ACCESS_LEVELS
from smoothsweep.core.errors import InputError
from smoothsweep.core.external.kinds import KINDS, is_external
from smoothsweep.core.files import write_file
from smoothsweep.core.judges.table import stage_of
from smoothsweep.core.membership.measuring import (
    BY_LABELS,
    RATES,
    measure_within_persons,
    over_persons,
    roc_auc,
    tpr_at,
)
from smoothsweep.core.membership.measuring import Measured as Scored
from smoothsweep.core.membership.registry import MEMBERSHIP_ATTACKS
from smoothsweep.core.readers.tables import read_rows
from smoothsweep.orchestrator.commands.audit.subject import FACE
from smoothsweep.orchestrator.commands.audit.sweep_file import label_of
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
    AttackFound,
    Audit,
    MembershipAudit,
    Role,
    Row,
    membership_words,
    of_attack,
    read_audit,
    shown_rate,
    with_second,
)
from smoothsweep.orchestrator.result.data import ReportData
from smoothsweep.orchestrator.result.findings import share as probability
from smoothsweep.orchestrator.result.format import number
from smoothsweep.orchestrator.result.leaks import AMONG
from smoothsweep.orchestrator.result.rows import results_table
from smoothsweep.orchestrator.result.standing import HEAD
from smoothsweep.orchestrator.result.summary import Summary, recipe_label, summarise
from smoothsweep.orchestrator.stages.stage import Stage
from smoothsweep.orchestrator.store.base import Store
from smoothsweep.sweeps.expand import LoadedSweep, as_inversion
from smoothsweep.sweeps.imported import ImportedClassifier, TargetCard
from smoothsweep.sweeps.training import Recipe

JSON_VERSION = 2
SCORES = "scores.parquet"
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


class StoredAudit(NamedTuple):
    """An audit as a store holds it: its result, and the trials and cells that it was read from."""

    audit: Audit
    trials: list[Trial]
    summary: Summary
    facts: Mapping[str, str]

    @property
    def strongest(self) -> list[Trial]:
        """The trials of the strongest attack, one for each seed."""
        best = set(self.summary.frame.loc[self.audit.rows[0], "trials"])
        return sorted((trial for trial in self.trials if trial.id in best), key=lambda trial: trial.seed)


def read_stored(
    loaded: LoadedSweep,
    store: Store,
    out: Path,
    card: TargetCard,
    *,
    access: str,
    shadowed: LoadedSweep | None = None,
    without_shadows: str = "",
    second: LoadedSweep | None = None,
    redact: bool = False,
    **known: Any,
) -> StoredAudit:
    """The result of an audit from what a store holds of its sweep.

    Args:
        out: The folder that links are relative to.
        shadowed: The sweep with the shadow models that attacked the model; None without one.
        without_shadows: Why there are no shadow models; empty for the usual reason.
        second: The sweep in which a second embedder judges the same reconstructions; None without one.
        redact: Give people numbers in the place of names.
        known: What `read_audit` is to be told of this run.

    Raises InputError where nothing has been judged.
    """
    trials, data, summary = _cells(loaded, store, out)
    recipes = [recipe_label(data.axes, trial.cell.axes) for trial in trials]
    own = next(trial for trial in trials if is_model(trial))
    beside = next((as_inversion(trial.settings).recipe for trial in trials if not is_model(trial)), None)
    words = membership_words(data, summary, access)
    members = read_membership([*zip(recipes, trials, strict=True)], store, access, words)
    if members is not None:
        shadows = None if shadowed is None else read_shadows(trials_of(shadowed, store), store)
        members = replace(members, shadowed=shadows, without_shadows=without_shadows or members.without_shadows)
    names = class_names(store, inversion_stages(as_inversion(trials[0].settings), trials[0].seed))
    audit = read_audit(
        data,
        summary,
        names=[f"person {label}" for label in range(len(names))] if redact else names,
        classes=card.num_classes,
        recipe=recipes[trials.index(own)],
        architecture=beside.architecture if beside else "",
        epochs=beside.epochs if isinstance(beside, Recipe) else 0,
        is_program=card.outside is not None,
        is_enrolled=is_external(card.architecture) and KINDS[card.architecture].enrols,
        membership=members,
        access=access,
        **known,
    )
    if audit is None:
        raise InputError("audit: nothing was judged; the lines above say why")
    if second is not None:
        judging, _, judged = _cells(second, store, out)
        judge: Any = as_inversion(judging[0].settings).judges.built[FACE]
        audit = with_second(audit, judged, judge.name)
    return StoredAudit(audit=audit, trials=trials, summary=summary, facts=data.facts)


def _cells(loaded: LoadedSweep, store: Store, out: Path) -> tuple[list[Trial], ReportData, Summary]:
    trials = trials_of(loaded, store)
    data = report_data(loaded, trials, store, results_table(trials, store, {}), out)
    return trials, data, summarise(data)


# Membership


def read_membership(
    trials: Sequence[tuple[str, Trial]], store: Store, access: str, words: Mapping[str, str] | None = None
) -> MembershipAudit | None:
    """Read the results of membership attacks with this access; None where the model was not attacked.

    trials: each with the name of its recipe. words: recipe -> its verdict relative to the reference.
    """
    stages: dict[str, dict[str, Stage]] = {}
    roles: dict[str, Role] = {}
    for name, trial in trials:
        if (stage := membership_stage(trial, store)) is not None:
            roles[name] = "model" if is_model(trial) else "reference" if trial.cell.is_baseline else "fix"
            stages.setdefault(name, {})[stage.fingerprint] = stage
    if "model" not in roles.values():
        return None
    names = sorted(roles, key=lambda name: roles[name] != "model")
    files = {name: tuple(store.needed_file(stage, SCORES) for stage in stages[name].values()) for name in names}
    first, facts = _scored(files[names[0]][0]), store.metrics(next(iter(stages[names[0]].values())))
    seen = np.isfinite(first.scores[BY_LABELS]) if BY_LABELS in first.scores else np.zeros(len(first.member), bool)
    few = not seen.all()
    return MembershipAudit(
        access=access,
        shift=float(facts["membership_shift"] or 0.0),
        members=int(first.member.sum()),
        others=int((~first.member).sum()),
        copies=int(facts["membership_copies"] or 0),
        drawn=int(seen.sum()) if few else None,
        drawn_members=int((seen & first.member).sum()) if few else None,
        recipes=tuple(
            {
                "recipe": name,
                "role": roles[name],
                "told": attacks_found(files[name], access),
                "trainings": len(files[name]),
                "word": (words or {}).get(name, ""),
            }
            for name in names
        ),
    )


def membership_stage(trial: Trial, store: Store) -> Stage | None:
    """The stage that measured the membership of a trial's target; None where the store holds none."""
    stage = inversion_stages(as_inversion(trial.settings), trial.seed).judges.get(stage_of("membership"))
    return stage if stage is not None and store.has(stage) else None


def is_model(trial: Trial) -> bool:
    """Whether a trial attacks the model under audit, not a training beside it."""
    return isinstance(as_inversion(trial.settings).recipe, ImportedClassifier)


@lru_cache(maxsize=64)
def attacks_found(files: tuple[Path, ...], access: str) -> tuple[AttackFound, ...]:
    """The attacks within an access, the strongest first, on one training, or their mean over several.

    files: the scores of each training, of the same images in the same order. Intervals are over people: trainings are
    not resampled. Cached, since the files never change and pages are written again after every step.
    """

    def mean_auc(members: np.ndarray, others: np.ndarray) -> float:
        """Of scores [images, trainings]."""
        return float(np.mean([roc_auc(*pair) for pair in zip(members.T, others.T, strict=True)]))

    runs = [_scored(file) for file in files]
    first, found = runs[0], []
    for name in first.scores:
        sees = MEMBERSHIP_ATTACKS[name].access
        if ACCESS_LEVELS.index(sees) > ACCESS_LEVELS.index(access):
            continue
        scores = np.stack([run.scores[name] for run in runs], axis=1)
        known = np.isfinite(scores).all(axis=1)
        scores, member = scores[known], first.member[known]
        auc, low, high = over_persons(mean_auc, scores, member, first.labels[known]) or (math.nan,) * 3
        rates = [tpr_at(column[member], column[~member], RATES["fpr1"]) for column in scores.T]
        rate = None if None in rates else float(np.mean([one for one in rates if one is not None]))
        found.append(AttackFound(attack=name, access=sees, auc=auc, low=low, high=high, found=rate))
    return tuple(sorted(found, key=lambda one: (math.isnan(one.auc), -one.auc)))


@lru_cache(maxsize=64)
def _scored(file: Path) -> Scored:
    """The scores of every attack, from the file of a judge of membership."""
    frame = read_rows(file)
    return Scored(
        scores={name: frame[name].to_numpy(dtype=np.float64) for name in frame.columns if name in MEMBERSHIP_ATTACKS},
        member=frame["member"].to_numpy(dtype=bool),
        labels=frame["class"].to_numpy(),
    )


def read_shadows(trials: Sequence[Trial], store: Store) -> Row | None:
    """Read the results of the sweep with shadow models; None where they did not attack the model.

    trials: the model's first, then the reference's, where there is one.
    """
    judged: dict[bool, Stage] = {}
    for trial in trials:
        if (stage := membership_stage(trial, store)) is not None:
            judged.setdefault(is_model(trial), stage)
    if True not in judged:
        return None
    shadows = [source for source in judged[True].inputs.values() if source.name == "shadow"]
    measured = {own: measure_within_persons(_scored(store.needed_file(one, SCORES))) for own, one in judged.items()}
    settings: Any = as_inversion(trials[0].settings).judges.settings["membership"]
    recipe = settings.shadow_recipe
    return {
        "count": len(shadows),
        "recipe": label_of(recipe.model_dump(mode="json", exclude_none=True)),
        "architecture": recipe.architecture,
        "epochs": shadows[0].config["epochs"],
        "persons": measured[True][1],
        "told": measured[True][0],
        "reference": measured[False][0] if False in measured else (),
        "seconds": sum(float(store.manifest(one)["seconds"]) for one in shadows if store.has(one)),
    }


# Pages

Portraits = Mapping[int, tuple[np.ndarray, np.ndarray]]
"""Label of a person -> a photograph and a reconstruction, uint8 [H, W, 3] each."""


def portraits_of(stored: StoredAudit, store: Store) -> Portraits:
    """Of the people exposed most: a photograph, and the strongest attack's most confident reconstruction."""
    trial = stored.strongest[0]
    stages = inversion_stages(as_inversion(trial.settings), trial.seed)
    labels, found = training_labels(store, stages), {}
    for label in (person["label"] for person in stored.audit.people[:EXPOSED] if person["share"] > 0):
        photograph = training_image(store, stages, int(np.flatnonzero(labels == label)[0]))
        found[label] = photograph, reconstruction(store, stages, label, 0)
    return found


def write_audit(stored: StoredAudit, store: Store, out: Path, card: TargetCard, name: str, *, redact: bool) -> None:
    """Write the three files; each replaces its predecessor in one step. redact: without names, places and pictures."""
    facts = {key: words for key, words in stored.facts.items() if not redact or key not in NAMES_PLACES}
    portraits = {} if redact else portraits_of(stored, store)
    write_file(out / "audit.pdf", audit_pdf(stored.audit, name=name, facts=facts, portraits=portraits))
    model = {"name": name, "architecture": card.architecture, "image_size": card.image_size}
    if card.source:
        model |= {"sha256": card.source.sha256, **({} if redact else {"file": card.source.file})}
    told = {"version": JSON_VERSION, "model": model, **stored.audit.dump()}
    write_file(out / "audit.json", json.dumps(told, indent=1) + "\n")
    write_file(out / "audit.html", audit_page(stored.audit, name=name, facts=facts, portraits=portraits))


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
    html = audit_page(audit, name=name, facts=facts, portraits=portraits, template="audit_pdf.html")
    paper.write_html(html, font_family="sans", tag_styles=PAPER)
    return bytes(paper.output())


def audit_page(
    audit: Audit, *, name: str, facts: Mapping[str, str], portraits: Portraits, template: str = "audit.html"
) -> str:
    """audit.html, for readers who want to know. portraits: of the people exposed most."""
    return fill(
        template,
        audit=audit,
        said=audit.said,
        spec=audit.spec,
        fixes=audit.beside_as("fix"),
        name=name,
        facts=facts,
        portraits={label: tuple(map(data_uri, pair)) for label, pair in portraits.items()},
        share=lambda value: number(audit.spec, value),
        parts=HEAD,
        matched_words=f"matched among {audit.classes}",
        colour_rules="",
        data={"title": f"Audit of {name}"},
        exposed=audit.people[:EXPOSED],
        among=probability,
        among_count=AMONG,
        shown_rate=shown_rate,
        of_attack=of_attack,
    )
