"""Cutting classes into pieces of work."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smoothsweep.core.errors import InputError
from smoothsweep.tasks.classes import (
    batches,
    class_file,
    classes_of_stage,
    classes_without_file,
    groups,
)


@given(
    st.lists(st.integers(0, 10_000), unique=True, max_size=300),
    st.integers(1, 64),
    st.none() | st.integers(1, 50),
    st.integers(1, 20),
)
def test_groups_hold_every_class_once_in_order_and_leave_batches_whole(classes, devices, per_task, together):
    whole = batches(classes, together)
    cut = groups(whole, devices=devices, per_task=per_task)
    assert [c for batch in whole for c in batch] == [c for group in cut for c in group] == classes
    assert all(group for group in cut) and all(len(batch) == together for batch in whole[:-1])
    assert all(any(set(batch) <= set(group) for group in cut) for batch in whole)
    if per_task:
        assert all(len(group) <= max(per_task, together) for group in cut)


def test_finished_classes_are_not_done_again(tmp_path):
    half_written = ".000004.safetensors.17"  # by a worker that was killed
    assert classes_without_file([2, 3, 4], {class_file(tmp_path, 3).name, half_written}) == [2, 4]


@pytest.mark.parametrize(
    ("listed", "expected"),
    [
        ("all", [0, 1, 2, 3]),
        (2, [0, 1]),
        ([3, 0], [3, 0]),
        ((1,), [1]),
    ],
)
def test_the_classes_of_a_stage_are_those_that_it_lists(listed, expected):
    assert classes_of_stage({"classes": listed}, 4) == expected


def test_a_class_that_the_data_do_not_have_is_refused():
    with pytest.raises(InputError, match=r"^classes: expected labels below 4, got 4$"):
        classes_of_stage({"classes": [0, 4]}, 4)


@pytest.mark.parametrize(
    ("count", "together", "devices", "per_task", "sizes"),
    [
        (16, 1, 2, None, [2] * 8),
        (17, 1, 2, None, [3] * 5 + [2]),
        (3, 1, 4, None, [1] * 3),
        (16, 2, 1, None, [4] * 4),
        (4, 1, 0, None, [1] * 4),
        (7, 1, 2, 3, [3, 3, 1]),
        (8, 4, 9, 1, [4, 4]),
        (12, 4, 9, 8, [8, 4]),
        (0, 1, 3, None, []),
    ],
)
def test_groups_are_as_large_as_they_are_said_to_be(count, together, devices, per_task, sizes):
    cut = groups(batches(list(range(count)), together), devices=devices, per_task=per_task)
    assert [len(group) for group in cut] == sizes
