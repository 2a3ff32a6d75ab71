"""The size of a sweep as its comparisons count it: recipes, attacks, seeds, classes, and how many classes there are."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from smoothsweep.core.data.sources import class_count
from smoothsweep.core.errors import InputError
from smoothsweep.core.judges.columns import BY_KEY, CLASS_METRICS
from smoothsweep.core.metrics.metric import Metric
from smoothsweep.core.metrics.power import Design
from smoothsweep.sweeps.data import LabelledData
from smoothsweep.sweeps.expand import OF_THE_ATTACKER, Cell
from smoothsweep.sweeps.imported import ImportedClassifier
from smoothsweep.sweeps.loaded import LoadedSweep
from smoothsweep.sweeps.other_trials import known_classes
from smoothsweep.sweeps.resolved import CLASSES
from smoothsweep.sweeps.schema import InversionSweep


@dataclass(frozen=True, kw_only=True)
class Size:
    """What a sweep compares.

    Attributes:
        design: Its seeds, classes, recipes, attacks and images of each class.
        trained: How many classes its targets know.
        available: How many classes its data have, whether or not the sweep takes all of them.
        leak: The metric that its recipes are compared by.
    """

    design: Design
    trained: int
    available: int
    leak: Metric


def size_of(loaded: LoadedSweep, cells: Iterable[Cell], *, recipes: int | None = None) -> Size:
    """The size of a sweep with these cells, one for every recipe and attack.

    recipes: how many there will be, where the cells do not hold all of them.

    Raises InputError where recipes are not compared by a leak of classes, or the number of classes is not known yet.
    """
    attacked = [(cell, cell.settings) for cell in cells if isinstance(cell.settings, InversionSweep)]
    known = [(cell, settings, settings.attack) for cell, settings in attacked if settings.attack]
    counted = [(cell, settings, attack) for cell, settings, attack in known if not attack.built.control]
    if not counted:
        raise InputError("no attack is compared")
    settings = counted[0][1]
    leak = _leak(settings)
    classes = _classes(settings)
    if leak is None:
        raise InputError("no judge counts hits by class")
    if classes is None:
        raise InputError("the number of classes is not known before the data are there")
    trained, available = classes
    design = Design(
        seeds=len(loaded.sweep.every_seed),
        classes=trained if settings.classes == "all" else len(settings.classes),
        recipes=recipes or len({recipe_of(cell) for cell, *_ in counted}),
        attacks=len({_attack_of(cell) for cell, *_ in counted}),
        images=min(attack.selected for *_, attack in counted),
    )
    return Size(design=design, trained=trained, available=available, leak=leak)


def recipe_of(cell: Cell) -> str:
    """What a cell's recipe is told by: the values that are not of the attacker."""
    return repr([(key, value) for key, value in cell.values.items() if key.split(".")[0] not in OF_THE_ATTACKER])


def _attack_of(cell: Cell) -> str:
    return repr([(key, value) for key, value in cell.values.items() if key.split(".")[0] in OF_THE_ATTACKER])


def _leak(settings: InversionSweep) -> Metric | None:
    """The first metric of classes that a judge of the sweep measures."""
    metrics = (BY_KEY[key] for key in CLASS_METRICS)
    return next((metric for metric in metrics if getattr(settings.judges, metric.measured_by or "", None)), None)


def _classes(settings: InversionSweep) -> tuple[int, int] | None:
    """(classes that a target knows, classes that the data have), counted without reading a picture; None where only
    data that are not there yet say it."""
    known, data = known_classes(settings), settings.data
    if isinstance(settings.recipe, ImportedClassifier):
        return None if known is None else (known, known)
    there = CLASSES.get(data.kind, known)
    if isinstance(data, LabelledData) and (path := Path(data.path).expanduser()).exists():
        there = class_count(path)
    if there is None:
        return None
    trained = there if known is None else known
    return trained, max(there, trained)
