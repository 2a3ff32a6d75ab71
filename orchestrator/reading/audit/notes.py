"""What the numbers of an audit do not say, and its pages do: from its run, and from its store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from smoothsweep.orchestrator.reading.audit.members import AuditMembership


@dataclass(frozen=True, kw_only=True)
class RunNotes:
    """What the run of an audit tells its readers beside the numbers.

    Attributes:
        untried: Sentences on the attacks that the model could not be put under.
        unfit: Sentences on what there was no time for.
        own_test: Whether the data say which images are for testing.
        planned: Recipe -> device-seconds that were expected of its first seed.
        strangers: Public images for the thresholds of verification; None where they are rendered.
        told: Sentences on public images that may not fit.
        unmeasured: Why membership was not measured, where it was asked.
        access: What the attacker sees of the model.
        judge_name: The independent judge's network; empty without one.
    """

    untried: tuple[str, ...] = ()
    unfit: tuple[str, ...] = ()
    own_test: bool = False
    planned: Mapping[str, float] = field(default_factory=dict)
    strangers: int | None = None
    told: tuple[str, ...] = ()
    unmeasured: tuple[str, ...] = ()
    access: str = "gradients"
    judge_name: str = ""


@dataclass(frozen=True, kw_only=True)
class AuditNotes(RunNotes):
    """What else the numbers do not say.

    Attributes:
        names: The people by label.
        classes: Of the model.
        recipe: The model's among those of the sweep; None where it is the only one.
        architecture: Of what was trained beside it, with its epochs.
        is_program: Whether the model itself cannot be trained here.
        is_enrolled: Whether its classes are people enrolled with an embedder.
        asked_once: Trial -> images that the parts of its attack have shown the model.
        membership: Which images it was trained on; None where that was not measured.
    """

    names: Sequence[str]
    classes: int
    recipe: str | None = None
    architecture: str = ""
    epochs: int = 0
    is_program: bool = False
    is_enrolled: bool = False
    asked_once: Mapping[str, float] = field(default_factory=dict)
    membership: AuditMembership | None = None
