"""The stages of each trial, noted by the last report of a sweep, to find the manifests behind a row."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, Any

from pydantic import BaseModel, Field

from smoothsweep.orchestrator.planning.trial import Trial
from smoothsweep.orchestrator.store.base import Store
from smoothsweep.orchestrator.store.notes import read_lines, write_lines

TRIALS_FILE = "trials.jsonl"
DOT = "\u00b7"
"""Stands between the parts of a trial's name."""


Named = Callable[[Trial], tuple[str, str]]
"""A trial's recipe and attack, as the report calls them; the attack is empty where the sweep has one alone."""


class TrialNote(BaseModel):
    """A trial by its id.

    Attributes:
        axes: Short name -> value.
        stages: Kind -> fingerprint of those whose metrics make the row.
        recipe, attack: What the report calls them, empty in notes of earlier versions.
    """

    trial: Annotated[str, Field(pattern=r"^[0-9a-f]{12}$")]
    label: str
    seed: int
    phase: str
    recipe: str = ""
    attack: str = ""
    axes: dict[str, Any]
    stages: dict[
        Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,63}$")], Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
    ]

    @property
    def name(self) -> str:
        """The name of the trial in every output; its label in notes of earlier versions."""
        return trial_name(self.recipe, self.attack, self.seed, self.phase) if self.recipe else self.label


def trial_name(recipe: str, attack: str, seed: int, phase: str) -> str:
    """`plain training · attack loss logit · seed 61`.

    Args:
        recipe, attack: As the report calls them, the attack perhaps empty.
        phase: As `Trial.phase` has it, "sweep" untold.
    """
    parts = (recipe, attack, f"seed {seed}", "" if phase == "sweep" else phase)
    return f" {DOT} ".join(filter(None, parts))


def write_trial_notes(store: Store, name: str, trials: Sequence[Trial], named: Named | None = None) -> None:
    """Replace the note of a sweep's trials as a whole. named: what the report calls them; None without a report."""
    write_lines(store, name, TRIALS_FILE, (_note(trial, named).model_dump(mode="json") for trial in trials))


def _note(trial: Trial, named: Named | None) -> TrialNote:
    recipe, attack = ("", "") if named is None else named(trial)
    return TrialNote(
        trial=trial.id,
        label=trial.label,
        seed=trial.seed,
        phase=trial.phase,
        recipe=recipe,
        attack=attack,
        axes=trial.cell.axes,
        stages={stage.name: stage.fingerprint for stage in trial.stages},
    )


def read_trial_notes(store: Store, name: str) -> list[TrialNote]:
    """The trials of a sweep in its order; none where no report of it was written, or the note is damaged."""
    return read_lines(store, name, TRIALS_FILE, (TrialNote,), "smoothsweep report writes it again")
