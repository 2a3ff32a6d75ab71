"""The folder that a part works in: what it keeps between attempts, and how often the target was asked in all."""

from types import SimpleNamespace

import pytest
import torch
from drills.sweep_runs import STAGES
from drills.test_part_kills import KILLED

from smoothsweep.core.attacks.registry import PARTS
from smoothsweep.tasks.attack import CHECKPOINT, WorkFolder
from smoothsweep.tasks.context import MachineLeaving, TaskContext, ask_machine_leaving


def folder(work, queries):
    return WorkFolder(TaskContext(work=work), SimpleNamespace(queries=queries))


def test_what_was_shown_before_a_state_counts_with_what_is_shown_after_it(tmp_path):
    first = folder(tmp_path, 0)
    assert first.last_state() is None and first.queries == 0
    first._view.queries = 30
    first.keep_state({"step": 3, "weights": torch.ones(2)})
    first._view.queries = 45  # shown after the state, and lost with the worker
    assert first.queries == 45
    second = folder(tmp_path, 0)
    state = second.last_state()
    assert state["step"] == 3 and torch.equal(state["weights"], torch.ones(2)) and second.queries == 30
    second._view.queries = 7
    assert second.queries == 37
    second.keep_state({"step": 4})
    third = folder(tmp_path, 0)
    assert third.last_state() == {"step": 4} and third.queries == 37


def test_a_state_that_was_not_read_is_not_counted(tmp_path):
    folder(tmp_path, 30).keep_state({})
    assert folder(tmp_path, 5).queries == 5


def test_a_part_leaves_with_its_machine_once_its_state_is_kept(tmp_path):
    work = folder(tmp_path, 0)
    with ask_machine_leaving(lambda: True), pytest.raises(MachineLeaving):
        work.keep_state({"step": 1})
    assert (tmp_path / CHECKPOINT).is_file() and folder(tmp_path, 0).last_state() == {"step": 1}


def test_every_kind_of_part_is_killed_in_a_drill():
    assert {*KILLED, *set(STAGES) & set(PARTS)} == set(PARTS)
