"""The sections of docs/sweep-keys.md: one for every model that a sweep file can hold, with a heading of its own."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import get_args

from pydantic import BaseModel

from smoothsweep.core.attacks.registry import ATTACKS
from smoothsweep.core.defenses.registry import DEFENSES
from smoothsweep.core.priors.kinds import PRIORS
from smoothsweep.sweeps.attacker import MODELS
from smoothsweep.sweeps.attacks import schema_of as attack_model
from smoothsweep.sweeps.defenses import PLAIN_KIND, LabelSmoothing
from smoothsweep.sweeps.defenses import schema_of as other_defense_model
from smoothsweep.sweeps.imported import ImportedClassifier
from smoothsweep.sweeps.schema import InversionSweep
from smoothsweep.sweeps.toy import ToySweep
from tools.key_rows import Key, keys_of

Row = tuple[str, str, str, str]
"""Name, type, default and meaning of a key."""


def defense_model(kind: str) -> type[BaseModel]:
    """The model of a defense, label smoothing among them."""
    return LabelSmoothing if kind == PLAIN_KIND else other_defense_model(kind)


@dataclass(frozen=True, kw_only=True)
class Family:
    """A key whose value is one of many kinds. title: heading; one: a word for a member; model_of: kind -> its model."""

    title: str
    one: str
    kinds: Iterable[str]
    model_of: Callable[[str], type[BaseModel]]

    @property
    def models(self) -> dict[str, type[BaseModel]]:
        """Kind -> its model, in the order of the table."""
        return {kind: self.model_of(kind) for kind in self.kinds}


FAMILIES = {
    "attack": Family(title="Attacks", one="attack", kinds=ATTACKS, model_of=attack_model),
    "recipe.defense": Family(title="Defenses", one="defense", kinds=DEFENSES, model_of=defense_model),
    "prior": Family(title="Priors", one="prior", kinds=PRIORS, model_of=MODELS.__getitem__),
}
"""Key -> what may stand there."""


@dataclass(kw_only=True)
class Section:
    """The keys of one model.

    place: where it stands, empty for the whole file. kinds: of it, where it is one of several. members: kinds of the
    family around it that hold it. also: other places that take the same keys.
    """

    model: type[BaseModel]
    place: str
    kinds: tuple[str, ...]
    keys: list[Key]
    members: list[str] = field(default_factory=list)
    also: list[str] = field(default_factory=list)
    title: str = ""

    @property
    def link(self) -> str:
        """As GitHub and the site make it of the heading."""
        return anchor(self.title)

    @property
    def around(self) -> tuple[str, ...]:
        """The kinds that an example may be of; one empty one where there are none."""
        return tuple(self.members) or self.kinds or ("",)


def anchor(title: str) -> str:
    """The link to a heading of the same page."""
    return "#" + re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")


def sections() -> list[Section]:
    """Those of every sweep file, each model once, in the order of the page; the toy experiment's last."""
    found: dict[type[BaseModel], Section] = {}
    _collect(InversionSweep, found, place="", kinds=(), member="")
    for place, family in FAMILIES.items():
        for kind, model in family.models.items():
            _collect(model, found, place=place, kinds=(kind,), member=kind)
    found[ToySweep] = Section(model=ToySweep, place="", kinds=(), keys=[*keys_of(ToySweep, "")], title="Toy keys")
    _name([one for one in found.values() if not one.title])
    return list(found.values())


def _collect(
    model: type[BaseModel], found: dict[type[BaseModel], Section], *, place: str, kinds: tuple[str, ...], member: str
) -> None:
    """A section for the model and for those that a key of it may hold; a model that has one gets another place."""
    if (known := found.get(model)) is not None:
        if known.place != place and place not in known.also:
            known.also.append(place)
        if known.place == place and member and member not in known.members:
            known.members.append(member)
        return
    keys = [*keys_of(model, f"{place}." if place else "")]
    found[model] = Section(model=model, place=place, kinds=kinds, keys=keys, members=[member] if member else [])
    for key in keys:
        for one in () if key.place in FAMILIES else key.models:
            own = one.model_fields.get("kind")
            of_several = own is not None and own.is_required() and len(key.models) > 1
            named = tuple(map(str, get_args(own.annotation))) if own is not None and of_several else ()
            _collect(one, found, place=key.place, kinds=named, member=member)


def _name(every: Sequence[Section]) -> None:
    """Headings, each of which occurs once."""
    for one in every:
        one.title = f"`{one.place}`" if one.place else "Top level"
        one.title += f", kind {', '.join(one.kinds)}" if one.kinds else ""
        one.title += ", imported" if one.model is ImportedClassifier else ""
    twice = Counter(one.title for one in every)
    for one in every:
        if twice[one.title] > 1:
            one.title += f" of {', '.join(one.members)}"


def shared(members: Sequence[Section]) -> list[Key]:
    """Keys that all members of a family but one at most have alike."""
    rows = Counter(same(key) for one in members for key in one.keys)
    first = {same(key): key for one in reversed(members) for key in one.keys}
    return [key for row, key in first.items() if rows[row] >= max(len(members) - 1, 4)]


def same(key: Key) -> Row:
    """What two rows agree in that need to be written once."""
    return key.name, key.kind, key.default, key.meaning
