"""Every kind of stage gives the numbers that stand beside its version in stage_numbers.json.

Who changes the numbers of a stage raises its version in tasks/registry.py, or stores of yesterday are silently reused;
then SMOOTHSWEEP_KEEP_NUMBERS=1 on this file writes the new ones down. It refuses to where no version was raised.
"""

import copy
import json
import os
from functools import partial
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F

import smoothsweep.tasks.toy
from smoothsweep.core.analysis import toy
from smoothsweep.core.attacks.registry import ATTACKS, PARTS
from smoothsweep.core.judges.table import measured, stage_of
from smoothsweep.core.models.embedder_kinds import GENERAL
from smoothsweep.orchestrator.scheduling.execute import execute_with_inputs
from smoothsweep.orchestrator.stages.stage import Stage, with_ancestors
from smoothsweep.orchestrator.store.opening import open_store
from smoothsweep.tasks import judges
from smoothsweep.tasks.registry import TASKS
from tests.stage_numbers import differences, load_kept, numbers_of, save_kept
from tests.tasks.kept_stages import ALONE, ATTACKED, IN_A_TRIAL, OTHER_STAGES

KEPT = Path(__file__).with_name("stage_numbers.json")
KEEPS = bool(os.environ.get("SMOOTHSWEEP_KEEP_NUMBERS"))
WITHOUT_NUMBERS = {"sleep", *map(stage_of, measured())}  # of benchmarks/sleeping.py; of judges with a test of their own
CASES = [f"{case}, {protocol}" for protocol in ("clean", "paper") for case in (*IN_A_TRIAL, *ALONE)]


WRITE_DOWN = "write the numbers down: SMOOTHSWEEP_KEEP_NUMBERS=1 .venv/bin/python -m pytest " + (
    "tests/tasks/test_stage_numbers.py"
)


class Pooled(torch.nn.Module):
    """In the place of Inception: [N, 3, 299, 299] -> the means of its four quarters, [N, 12]."""

    def forward(self, images):
        return F.adaptive_avg_pool2d(images, 2).flatten(1)


@pytest.fixture
def made(request, tmp_path, monkeypatch):
    """Case -> its stage and the folder of its artifact."""

    def make(case):
        protocol = case.rpartition(", ")[2]
        if case in OTHER_STAGES:
            return executed(OTHER_STAGES[case](tmp_path), tmp_path, monkeypatch)
        pipeline, name = request.getfixturevalue(protocol), case.removesuffix(f", {protocol}")
        if name in IN_A_TRIAL:
            return pipeline.stage(IN_A_TRIAL[name]), pipeline.folder(IN_A_TRIAL[name])
        stage = ALONE[name](pipeline, protocol, tmp_path)
        return executed(stage, tmp_path, monkeypatch, pipeline.store)

    return make


def executed(stage, folder, monkeypatch, store=None):
    monkeypatch.setattr(judges, "load_network", lambda config, device: Pooled().to(device))
    known = judges.load_embedder
    monkeypatch.setattr(judges, "load_embedder", lambda name, path: Pooled() if name in GENERAL else known(name, path))
    own = judges.own_weights
    monkeypatch.setattr(judges, "own_weights", lambda name: folder / name if name in GENERAL else own(name))
    if stage.name == "toy":  # in full it takes ten seconds, and has a test of its own
        monkeypatch.setattr(toy, "train_toy", partial(toy.train_toy, steps=1500))
        monkeypatch.setattr(smoothsweep.tasks.toy, "toy_example", partial(toy.run_toy, endless_steps=20))
    if store is None:
        store = open_store(str(folder / "store"))
        store.open_for_writing()
    execute_with_inputs(store, stage)
    return stage, store.path(stage)


@pytest.mark.parametrize("case", [*CASES, *OTHER_STAGES])
def test_a_stage_gives_the_numbers_of_its_version(case, made):
    stage, folder = made(case)
    metrics = json.loads((folder / "manifest.json").read_text())["metrics"]
    found = {
        "versions": {one.name: TASKS[one.name].version for one in with_ancestors([stage])},
        "numbers": numbers_of(folder, metrics),
    }
    kept = load_kept(KEPT)
    if KEEPS:
        keep(case, stage.name, kept, found)
        return
    assert case in kept, f"{case}: {WRITE_DOWN}"
    entry = kept[case]
    assert found["versions"] == entry["versions"], f"{case}: a version was raised: {WRITE_DOWN}"
    changed = differences(entry["numbers"], found["numbers"])
    assert not changed, f"{case}: other numbers, raise the version of {stage.name} in tasks/registry.py: {changed[:5]}"


def keep(case, name, kept, found):
    before = kept.get(case)
    if before and before["versions"] == found["versions"]:
        changed = differences(before["numbers"], found["numbers"])
        assert not changed, f"{case}: raise the version of {name} in tasks/registry.py first: {changed[:5]}"
        return  # rounding alone: what is kept stays
    save_kept(KEPT, {**kept, case: found})


def test_every_kind_of_stage_is_kept_and_nothing_else():
    kept = load_kept(KEPT)
    every = {*CASES, *OTHER_STAGES}
    assert not every - set(kept), WRITE_DOWN
    assert not set(kept) - every, f"remove what is no case any more from {KEPT.name}"
    kinds = {case.partition(",")[0] for case in kept}
    assert kinds == set(TASKS) - WITHOUT_NUMBERS


def test_every_attack_of_the_table_is_kept():
    assert set(ATTACKED) == set(ATTACKS) - {"ppa"}  # which is the pipeline's own


def test_every_version_is_that_of_the_kept_numbers():
    """Of whatever case: what stands in the tables is what was written down, and nothing else is possible."""
    kept = {name: version for entry in load_kept(KEPT).values() for name, version in entry["versions"].items()}
    assert kept == {name: task.version for name, task in TASKS.items() if name not in WITHOUT_NUMBERS}
    assert {name: part.version for name, part in PARTS.items()} == {name: kept[name] for name in PARTS}


def test_small_changes_of_a_setting_are_seen(made, tmp_path, monkeypatch):
    """A learning rate one per cent higher, a batch of one image more: far beyond what rounding may do."""
    stage, _ = made("target, clean")
    for change in ({"lr": 1.05 * stage.config["lr"]}, {"batch_size": 1 + stage.config["batch_size"]}):
        other = Stage(name="target", config={**stage.config, **change}, inputs=stage.inputs)
        _, folder = executed(other, tmp_path, monkeypatch)
        assert differences(load_kept(KEPT)["target, clean"]["numbers"], numbers_of(folder, {})) != []


def test_other_rounding_is_none(made):
    """Numbers moved by a thousandth of their scale are the same; in another order, or with one missing, not."""
    numbers = load_kept(KEPT)["attack, clean"]["numbers"]
    rounded = copy.deepcopy(numbers)
    for row in rounded.values():
        if isinstance(row, list):
            row[1:] = [value + 1e-3 * row[2] for value in row[1:]]
    assert differences(numbers, rounded) == []
    assert differences(numbers, {name: row for name, row in numbers.items() if "scores" not in name}) != []
    moved = {name: [*row[:3], row[3] + 0.1 * row[2]] if isinstance(row, list) else row for name, row in numbers.items()}
    assert len(differences(numbers, moved)) >= 5
