"""Whether an attack can be tried on as many classes as the user's own data have, where only the data say how many."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from smoothsweep.core.attacks.shared.base import Attack
from smoothsweep.core.data.sources import class_count
from smoothsweep.sweeps.data import LabelledData
from smoothsweep.sweeps.other_trials import known_classes
from smoothsweep.sweeps.schema import InversionSweep


def refuse_listed_classes(settings: InversionSweep) -> None:
    """Raise InputError for an attack that does not suit the classes of a labelled set.

    What the sweep file says of their number was checked when it was read; attacks that take any number, and data that
    are not there yet (a plan may be made before they are), are let pass.
    """
    attack, data = settings.attack.built, settings.data
    takes_any = type(attack).check_classes is Attack.check_classes
    if takes_any or known_classes(settings) is not None or not isinstance(data, LabelledData):
        return
    path = Path(data.path).expanduser()
    if path.exists():
        attack.check_classes(_counted(path.resolve()))


@lru_cache(maxsize=8)
def _counted(path: Path) -> int:
    return class_count(path)
