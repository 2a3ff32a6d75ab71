"""Cutting classes into pieces of work."""

from hypothesis import given
from hypothesis import strategies as st

from tasks.classes import batches, class_file, groups, remaining


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


@given(st.integers(1, 1000), st.integers(1, 64))
def test_by_default_every_device_gets_work(count, devices):
    cut = groups(batches(list(range(count))), devices=devices, per_task=None)
    assert len(cut) >= min(count, devices)
    assert len(cut) <= max(4 * devices, 1)


def test_finished_classes_are_not_done_again(tmp_path):
    path = class_file(tmp_path, 3)
    path.parent.mkdir(parents=True)
    path.touch()
    (path.parent / ".000004.safetensors.17").touch()  # half written by a worker that was killed
    assert remaining([2, 3, 4], tmp_path) == [2, 4]
