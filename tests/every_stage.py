"""Every kind of stage that makes numbers, in tiny sweeps: for tests that must leave none out."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from safetensors.torch import save_file
from torch import Tensor

from smoothsweep.orchestrator.planning.trial import trials_of
from smoothsweep.orchestrator.stages.stage import Stage
from smoothsweep.sweeps.load import load_sweep
from tests.made_stores import stages_of
from tests.tiny import tiny_sweep, write_tiny


def every_stage(folder: Path, **changes: Any) -> list[Stage]:
    """The stages of one trial with every judge, inputs first. changes: of the tiny sweep, as in `tiny_sweep`."""
    (folder / "fid.safetensors").write_bytes(b"no weights: whoever runs this puts another network in its place")
    judges = {**tiny_sweep()["judges"], "fidelity": {"weights": str(folder / "fid.safetensors"), "neighbours": 1}}
    path = write_tiny(folder, **{"judges": judges, "grid": {}, "baseline": {}, **changes})
    return stages_of(trials_of(load_sweep(path)))


def imported_folder(folder: Path, weights: Mapping[str, Tensor], *, architecture: str, num_classes: int) -> str:
    """A classifier as `smoothsweep import target` leaves it."""
    folder.mkdir()
    save_file(dict(weights), folder / "weights.safetensors")
    card = {
        "architecture": architecture,
        "num_classes": num_classes,
        "image_size": 32,
        "transform_input": False,
        "data": None,
        "defense": None,
    }
    (folder / "target.json").write_text(json.dumps(card))
    return str(folder)
