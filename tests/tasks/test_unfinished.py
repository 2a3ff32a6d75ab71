"""Unfinished work is what was saved, or thrown away: never taken for whole."""

import pytest
import torch
from harm import HARMS, harmed

from smoothsweep.tasks.unfinished import finished_class, load_checkpoint, load_class, save_checkpoint, save_class

STATE = {"epoch": 3, "weights": {"a": torch.arange(200.0)}, "records": [{"loss": 0.5}]}
CLASS = {"w": torch.arange(12.0).reshape(3, 4), "labels": torch.tensor([1, 2, 3])}
KINDS = {"checkpoint": (save_checkpoint, load_checkpoint, STATE), "class": (save_class, load_class, CLASS)}


def equal(a, b):
    if isinstance(a, torch.Tensor):
        return torch.equal(a, b)
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(equal(a[key], b[key]) for key in a)
    return a == b


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("how", [*HARMS, *(f"bit {n}" for n in range(60))])
def test_what_is_not_what_was_saved_is_thrown_away(tmp_path, capsys, kind, how):
    save, load, content = KINDS[kind]
    path = tmp_path / "file"
    assert load(path) is None and capsys.readouterr().err == ""
    save(path, content)
    assert equal(load(path), content)
    path.write_bytes(harmed(path.read_bytes(), how))
    found = load(path)
    if found is not None:  # a bit of padding, which says nothing
        assert equal(found, content) and how.startswith("bit")
        return
    said = capsys.readouterr().err
    assert not path.exists() and said.count("\n") == 1 and "thrown away and made again" in said


def test_a_checkpoint_of_older_days_is_read(tmp_path):
    torch.save(STATE, tmp_path / "old.pt")
    assert equal(load_checkpoint(tmp_path / "old.pt"), STATE)


def test_a_class_without_a_checksum_is_made_again(tmp_path):
    from safetensors.torch import save_file

    save_file(CLASS, tmp_path / "class")
    assert load_class(tmp_path / "class") is None
    with pytest.raises(OSError, match="cannot be read back"):
        finished_class(tmp_path / "class")


@pytest.mark.parametrize("harm", [None, "the checkpoint", "Ray Train's note"])
def test_damaged_checkpoints_of_ray_train_are_thrown_away_before_it_reads_them(tmp_path, capsys, harm):
    from smoothsweep.tasks import ray_train

    folder = tmp_path / "ray_train"
    (folder / "checkpoint_1").mkdir(parents=True)
    save_checkpoint(folder / "checkpoint_1" / ray_train.STATE_FILE, STATE)
    (folder / "checkpoint_manager_snapshot.json").write_text('{"latest": "checkpoint_1"}')
    damaged = {
        "the checkpoint": f"checkpoint_1/{ray_train.STATE_FILE}",
        "Ray Train's note": "checkpoint_manager_snapshot.json",
    }.get(harm)
    if damaged:
        (folder / damaged).write_bytes(harmed((folder / damaged).read_bytes(), "zeroed"))
    ray_train._throw_away_damaged(folder)
    assert folder.exists() == (harm is None)
    assert ("checkpoints are damaged" in capsys.readouterr().err) == (harm is not None)
