"""Which stages make which trial, as the last report of a sweep left it: how a row leads to its manifests."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

from pydantic import BaseModel, Field

from smoothsweep.orchestrator.planning.trial import Trial
from smoothsweep.orchestrator.store.common.base import Store
from smoothsweep.orchestrator.store.notes import read_lines, write_lines

TRIALS_FILE = "trials.jsonl"


class TrialNote(BaseModel):
    """A trial by its id. axes: short name -> value; stages: kind -> fingerprint of those whose metrics make the row."""

    trial: Annotated[str, Field(pattern=r"^[0-9a-f]{12}$")]
    label: str
    seed: int
    phase: str
    axes: dict[str, Any]
    stages: dict[
        Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,63}$")], Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
    ]


def write_trial_notes(store: Store, name: str, trials: Sequence[Trial]) -> None:
    """Replace the note of a sweep's trials as a whole."""
    lines = (
        TrialNote(
            trial=trial.id,
            label=trial.label,
            seed=trial.seed,
            phase=trial.phase,
            axes=trial.cell.axes,
            stages={stage.name: stage.fingerprint for stage in trial.stages},
        ).model_dump(mode="json")
        for trial in trials
    )
    write_lines(store, name, TRIALS_FILE, lines)


def read_trial_notes(store: Store, name: str) -> list[TrialNote]:
    """The trials of a sweep in its order; none where no report of it was written, or the note is damaged."""
    return read_lines(store, name, TRIALS_FILE, (TrialNote,), "smoothsweep report writes it again")
