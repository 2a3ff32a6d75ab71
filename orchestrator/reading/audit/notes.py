"""What the numbers of an audit do not say, and its pages do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from smoothsweep.orchestrator.reading.audit.members import AuditMembership


@dataclass(frozen=True, kw_only=True)
class AuditNotes:
    """What the numbers do not say. names: the people by label; classes: of the model. recipe: the model's among those
    of the sweep, None where it is the only one. asked_once: images that the parts of a trial have shown the model, by
    trial. planned: device-seconds by recipe. The rest as in `Audit`."""

    names: Sequence[str]
    classes: int
    recipe: str | None = None
    untried: tuple[str, ...] = ()
    unfit: tuple[str, ...] = ()
    own_test: bool = False
    architecture: str = ""
    epochs: int = 0
    is_program: bool = False
    is_enrolled: bool = False
    asked_once: Mapping[str, float] = field(default_factory=dict)
    planned: Mapping[str, float] = field(default_factory=dict)
    strangers: int | None = None
    told: tuple[str, ...] = ()
    membership: AuditMembership | None = None
    unmeasured: tuple[str, ...] = ()
