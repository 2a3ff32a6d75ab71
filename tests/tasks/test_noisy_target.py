"""A target whose readout is noisy: a class's reconstructions still depend on the seed and the class alone."""

import torch
from safetensors.torch import load_file
from tiny import tiny_sweep

from smoothsweep.orchestrator.planning.trial import inversion_stages, trials_of
from smoothsweep.orchestrator.scheduling.execute import execute_with_inputs
from smoothsweep.orchestrator.store.opening import open_store
from smoothsweep.sweeps.loaded import LoadedSweep, check
from smoothsweep.tasks.attack import OpenTarget, invert_classes
from smoothsweep.tasks.classes import class_file
from smoothsweep.tasks.context import TaskContext


def test_noise_follows_the_class_and_not_its_neighbours(tmp_path):
    raw = tiny_sweep(protocol="paper", grid={}, baseline={}, judges={})
    raw["recipe"]["defense"] = {"kind": "mid", "beta": 0.01}
    [trial] = trials_of(LoadedSweep(sweep=check(raw, "tiny"), raw=raw, intro="", source="tiny"))
    store = open_store(str(tmp_path / "store"))
    store.open_for_writing()
    attack = inversion_stages(trial.settings, trial.seed).attack
    for stage in attack.inputs.values():
        execute_with_inputs(store, stage)
    inputs = {name: store.path(stage) for name, stage in attack.inputs.items()}
    config = {**attack.config, **attack.hints}
    assert not OpenTarget(inputs["target"], config, "cpu").steady
    assert OpenTarget(inputs["target"], {**config, "readout": "mean"}, "cpu").steady
    found = []
    for classes in ([2], [0, 2], [2]):
        work = tmp_path / f"work{len(found)}"
        work.mkdir()
        invert_classes(config, inputs, classes, TaskContext(work=work))
        found.append(load_file(class_file(work, 2)))
    for again in found[1:]:
        assert all(torch.equal(found[0][name], again[name]) for name in ("row.w", "row.scores", "curve.loss"))
