"""Facts and sentences of an audit that its pages show besides the numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from smoothsweep.orchestrator.reading.audit.members import AuditMembership


@dataclass(frozen=True, kw_only=True)
class RunNotes:
    """Facts and sentences that only the run of an audit knows.

    Attributes:
        untried: Sentences on attacks that need more access or queries than the model gives.
        unfit: Sentences on trainings and seeds for which there was no time.
        own_test: Whether the data mark test images.
        planned: Recipe -> forecast device-seconds of its first seed.
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
    """The facts of a run, and those that its store holds besides the numbers.

    Attributes:
        names: Names of the people, by label.
        classes: Number of the model's classes.
        recipe: Name of the model's recipe in the sweep; None where it is the only one.
        architecture: Architecture of the reference and the fixes.
        epochs: Epochs of the trainings of the reference and the fixes.
        is_program: Whether the model is a program, which cannot be trained here.
        is_enrolled: Whether its classes are people enrolled with an embedder.
        asked_once: Trial -> queries sent by the parts of its attack.
        membership: Results of membership attacks; None where membership was not measured.
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
