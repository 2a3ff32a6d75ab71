"""The attacker's prior in a sweep file. Its keys are the fields of its settings, which core/priors/kinds.py names."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from smoothsweep.core.plugins import with_plugin_name
from smoothsweep.core.priors.kinds import PRIORS, make_settings
from smoothsweep.core.priors.settings import PriorKind, PriorSettings
from smoothsweep.sweeps.base import Model
from smoothsweep.sweeps.derived import derived, one_of, one_value


class AnyPrior(Model):
    """What every prior of a sweep file has; the keys of its kind are added to it."""

    kind: str

    @property
    def row(self) -> PriorKind:
        """What is known of its kind."""
        return PRIORS[self.kind]

    @property
    def words(self) -> str:
        """What a page, a terminal and MLflow call it."""
        return with_plugin_name(self.row.settings.title or self.kind.replace("_", " "), "priors", self.kind)

    @cached_property
    def built(self) -> PriorSettings:
        """Its settings. Raises InputError where their class refuses the values."""
        return make_settings(self.kind, **self.model_dump(mode="python", exclude={"kind"}))


MODELS: dict[str, type[AnyPrior]] = {
    kind: derived(row.settings, AnyPrior, without=row.settings.unsaid, more={"kind": (one_value(kind), ...)})
    for kind, row in PRIORS.items()
}

if TYPE_CHECKING:
    Prior = AnyPrior
else:
    Prior = Annotated[one_of(tuple(MODELS.values())), Field(discriminator="kind")]
"""The type of a sweep's `prior`: chosen by `kind`."""
