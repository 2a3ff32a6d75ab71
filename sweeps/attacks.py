"""The attack and the attacker's prior of a sweep file.

Their keys are the fields of their dataclasses in core, and what they may be is checked by those classes: a new attack
or prior needs nothing here.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from pydantic import Field, PlainValidator, SerializeAsAny

from smoothsweep.core.attacks.registry import attack_class, rename_earlier_parameters
from smoothsweep.core.attacks.shared.base import Attack as CoreAttack
from smoothsweep.core.plugins import refuse_broken, with_plugin_name
from smoothsweep.core.priors.kinds import PRIORS
from smoothsweep.core.priors.settings import PriorKind
from smoothsweep.sweeps.base import Built, derived, one_of, one_value
from smoothsweep.sweeps.training import OtherTrial

DEFAULT_KIND = "ppa"


class AnyAttack(Built):
    """What every attack of a sweep file has; the keys of its kind are added by `schema_of`."""

    prefix: ClassVar[str] = "attack."
    kind: str
    if TYPE_CHECKING:  # what every attack has (core.attacks.base.Attack)
        selected: int
        seed: int
        readout: str | None
        precision: str | None
        reconstruction_size: int | None

        @cached_property
        def built(self) -> CoreAttack: ...

    @property
    def label(self) -> str:
        """What the column `attack` of the results calls it: its kind, and what tells it from others of its kind."""
        return " ".join(filter(None, (self.kind, self.built.variant, *self._swapped)))

    @property
    def words(self) -> str:
        """What a page, a terminal and MLflow call it."""
        return with_plugin_name(", ".join((self.built.words, *self._swapped)), "attacks", self.kind)

    @property
    def _swapped(self) -> list[str]:
        others = {role: getattr(self, role) for role in self.built.other_targets}
        return [f"{role.replace('_', ' ')} {other.words}" for role, other in others.items() if other is not None]


def read_attack(raw: Any) -> AnyAttack:
    """What stands under `attack` in a file, checked by the model of its kind.

    Raises ValueError for an unknown kind or key, pydantic's error for values of the wrong type.
    """
    if isinstance(raw, AnyAttack):
        return raw
    if not isinstance(raw, Mapping):
        raise ValueError(f"expected keys such as kind and its parameters, got {raw!r}")
    refuse_broken("attacks", raw.get("kind"))  # what is not named is our own
    model = schema_of(raw.get("kind", DEFAULT_KIND))
    return model.model_validate({"kind": DEFAULT_KIND, **rename_earlier_parameters(raw)})


def schema_of(kind: Any) -> type[AnyAttack]:
    """The model of one kind of attack. Raises InputError, which lists the kinds."""
    attack_class(kind)
    return _schema_of(kind)


@lru_cache
def _schema_of(kind: str) -> type[AnyAttack]:
    others: dict[str, Any] = {role: (OtherTrial | None, None) for role in attack_class(kind).other_targets}
    model = derived(attack_class(kind), AnyAttack, more={"kind": (one_value(kind), kind), **others})
    model.beside = ("kind", *others)
    return model


Attack = Annotated[SerializeAsAny[AnyAttack], PlainValidator(read_attack)]
"""The type of a sweep's `attack`: chosen by `kind`."""


class AnyPrior(Built):
    """What every prior of a sweep file has; the keys of its kind are added to it."""

    prefix: ClassVar[str] = "prior."
    kind: str

    @property
    def row(self) -> PriorKind:
        """What is known of its kind."""
        return PRIORS[self.kind]

    @property
    def words(self) -> str:
        """What a page, a terminal and MLflow call it."""
        return with_plugin_name(self.row.settings.title or self.kind.replace("_", " "), "priors", self.kind)


MODELS: dict[str, type[AnyPrior]] = {
    kind: derived(row.settings, AnyPrior, without=row.settings.unsaid, more={"kind": (one_value(kind), ...)})
    for kind, row in PRIORS.items()
}

if TYPE_CHECKING:
    Prior = AnyPrior
else:
    Prior = Annotated[one_of(tuple(MODELS.values())), Field(discriminator="kind")]
"""The type of a sweep's `prior`: chosen by `kind`."""
