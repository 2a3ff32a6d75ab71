"""What a paper on a sweep cites: the sources of every attack, defense, judge, prior and data set that it used."""

from __future__ import annotations

from collections.abc import Iterable

from smoothsweep.core.citations import PAPER, SOFTWARE, bibliography
from smoothsweep.core.defenses.registry import DEFENSES
from smoothsweep.orchestrator.planning.trial import Trial
from smoothsweep.sweeps.imported import ImportedClassifier
from smoothsweep.sweeps.loaded import as_inversion
from smoothsweep.sweeps.schema import InversionSweep

SMOOTHING = "label_smoothing"


def bibliography_of(trials: Iterable[Trial]) -> str:
    """A BibTeX file. The software and the paper whose question it asks are always in it."""
    keys = {SOFTWARE, PAPER}
    for trial in trials:
        keys |= set(cited(as_inversion(trial.settings)))
    return bibliography(keys)


def cited(settings: InversionSweep) -> Iterable[str]:
    """The sources of one trial's settings."""
    yield from settings.data.cites
    yield from _of_training(settings)
    if settings.attack is not None:
        yield from settings.attack.built.citations
        if settings.reads_prior and settings.prior is not None:
            yield from settings.prior.row.cites
        if settings.reads_public and settings.public is not None:
            yield from settings.public.cites
    for judge in settings.judges.built.values():
        yield from judge.citations


def _of_training(settings: InversionSweep) -> Iterable[str]:
    """Plain training cites no paper: label smoothing with a factor of 0 is none."""
    if isinstance(settings.recipe, ImportedClassifier):
        stated = settings.recipe.stated_defense or {}
        kind, alpha = stated.get("kind"), stated.get("alpha") or 0
    else:
        kind, alpha = settings.recipe.defense.kind, settings.recipe.defense.final_alpha
    if kind in DEFENSES and kind != SMOOTHING:
        yield from DEFENSES[kind].cites
    if alpha:
        yield from DEFENSES[SMOOTHING].cites
