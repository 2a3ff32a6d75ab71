"""`smoothsweep weights stage`: which published weight files a sweep needs, and seeing that they are there."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from smoothsweep.core import screen
from smoothsweep.orchestrator.stages.weights import pretrained_architectures
from smoothsweep.sweeps.expand import expand
from smoothsweep.sweeps.load import load_sweep
from smoothsweep.sweeps.loaded import LoadedSweep, as_inversion
from smoothsweep.sweeps.recipes import every_choice
from smoothsweep.sweeps.schema import InversionSweep, ToySweep


def stage_weights_of(sweeps: list[Path], folder: Path | None) -> int:
    """Fetch and verify what the sweeps need (all known files if none is named); 1 if something could not be had."""
    from smoothsweep.core.models.weight_files import WEIGHT_FILES, stage_weights, weight_file, weight_folders

    names = list(WEIGHT_FILES) if not sweeps else needed_files(load_sweep(path) for path in sweeps)
    if not names:
        screen.out("these sweeps need no published weights")
        return 0
    staged = stage_weights(names, folder or weight_folders()[0])
    for file in staged:
        entry = weight_file(file.name)
        screen.out(f"ok    {file.name:<14} {file.path}" if file.path else f"MISS  {file.name:<14} {file.reason}")
        if file.path:
            screen.out(f"      {'':<14} {entry.licence}")
    return 0 if all(file.path for file in staged) else 1


def needed_files(sweeps: Iterable[LoadedSweep]) -> list[str]:
    """Names of the weight files that the trials of these sweeps read: to start from, and to judge with."""
    names: list[str] = []
    for loaded in sweeps:
        if not isinstance(loaded.sweep, ToySweep):
            cells = every_choice(loaded) if loaded.sweep.search else []
            for cell in [*expand(loaded), *cells]:
                names += [
                    *pretrained_architectures(as_inversion(cell.settings)),
                    *_judged_with(as_inversion(cell.settings)),
                ]
    return list(dict.fromkeys(names))


def _judged_with(settings: InversionSweep) -> list[str]:
    return [judge.staged for judge in settings.judges.built.values() if judge.staged is not None]
