"""Whether a user's own images suit the sweep: the public ones show other people than the private ones, and these are as
many as the attack takes."""

from __future__ import annotations

import os
from functools import lru_cache
from pathlib import Path

from smoothsweep.core.attacks.shared.base import Attack
from smoothsweep.core.data.sources import count_labelled
from smoothsweep.core.errors import InputError
from smoothsweep.orchestrator.stages.fingerprints import content_of
from smoothsweep.sweeps.data import LabelledData, UnlabelledPublic
from smoothsweep.sweeps.schema import InversionSweep, known_classes


def refuse_same_people(settings: InversionSweep) -> None:
    """Raise InputError where data and public images share their files.

    By place: one and the same, one in the other, through links as well. By content: a copy of a labelled set.
    """
    private, public = settings.data.path, settings.public
    if private is None or not isinstance(public, UnlabelledPublic):
        return
    _compare(private, public.path, by_content=isinstance(settings.data, LabelledData))


@lru_cache(maxsize=64)
def _compare(private: str, public: str, *, by_content: bool) -> None:
    private_path, other = (Path(path).expanduser().resolve() for path in (private, public))
    contents = [content_of(path, key) for path, key in ((private, "data.path"), (public, "public.path")) if by_content]
    if not (private_path.exists() and other.exists()):
        return  # a plan of what is not there yet
    is_same = by_content and contents[0] == contents[1]
    if (
        is_same
        or os.path.samefile(private_path, other)
        or private_path.is_relative_to(other)
        or other.is_relative_to(private_path)
    ):
        raise InputError(f"public.path: expected images of other people than data.path, got {private_path} and {other}")


def refuse_listed_classes(settings: InversionSweep) -> None:
    """Raise InputError for an attack that does not suit the classes of a labelled set.

    What the sweep file says of their number was checked when it was read; attacks that take any number, and data that
    are not there yet (a plan may be made before they are), are let pass.
    """
    attack, data = settings.inverted_by.built, settings.data
    takes_any = type(attack).check_classes is Attack.check_classes
    if takes_any or known_classes(settings) is not None or not isinstance(data, LabelledData):
        return
    path = Path(data.path).expanduser()
    if path.exists():
        attack.check_classes(_counted(path.resolve()))


@lru_cache(maxsize=8)
def _counted(path: Path) -> int:
    return count_labelled(path).classes
