"""The workers of one training on several machines: what one leaves, another has."""

import pytest

from smoothsweep.orchestrator.stages.stage import Stage
from smoothsweep.orchestrator.store.common.machine import CACHE_VARIABLE
from smoothsweep.orchestrator.store.opening import open_store
from smoothsweep.orchestrator.store.remote.layout import work_key
from smoothsweep.orchestrator.store.remote.objects import make_filesystem

STAGE = Stage(name="toy", config={"alpha": 1.0})


@pytest.fixture
def machines(s3, monkeypatch, tmp_path):
    """The folders that two machines share: of the driver's, and of a worker's."""
    here = open_store(s3).shared_folders
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "elsewhere"))
    there = open_store(s3).shared_folders
    assert here.store.root != there.store.root
    return here, there


def files_of(folder):
    return {path.relative_to(folder).as_posix(): path.read_text() for path in folder.rglob("*") if path.is_file()}


def test_what_a_worker_leaves_comes_to_the_work_of_the_driver(machines):
    here, there = machines
    work = here.store.work(STAGE)
    work.mkdir(parents=True)
    (work / "kept.txt").write_text("mine")
    with there.joined(work) as folder:
        assert folder.is_dir() and folder.is_relative_to(there.store.root / "toy") and not files_of(folder)
        assert folder.name.startswith(f"{STAGE.fingerprint}.work.")
        (folder / "final.pt").write_text("weights")
        (folder / "inner").mkdir()
        (folder / "inner" / "mark").write_text("half")
        (folder / "kept.txt").write_text("theirs")
        (folder / ".half").write_text("being written")
    assert not folder.exists()
    here.pull(work)
    assert files_of(work) == {"kept.txt": "mine", "final.pt": "weights", "inner/mark": "half"}
    below = {listed.key for listed in here.store.objects.listed(work_key("toy", STAGE.fingerprint))}
    assert below == {"kept.txt", "final.pt", "inner/mark"}


def test_what_a_worker_that_fails_has_made_is_kept_and_its_folder_goes(machines):
    here, there = machines
    work = here.store.work(STAGE)
    with pytest.raises(ZeroDivisionError), there.joined(work) as folder:
        (folder / "checkpoint.pt").write_text("epoch 3")
        _ = 1 / 0
    assert not folder.exists()
    here.pull(work)
    assert files_of(work) == {"checkpoint.pt": "epoch 3"}


def test_ray_trains_checkpoints_lie_in_the_store_itself(machines):
    here, there = machines
    work = here.store.work(STAGE)
    filesystem, place = here.checkpoints(work)
    assert (type(filesystem), place) == (type(make_filesystem()), there.checkpoints(there.store.work(STAGE))[1])
    with filesystem.open_output_stream(f"{place}/ray_train/checkpoint_0/state.pt") as stream:
        stream.write(b"state")
    key = work_key("toy", STAGE.fingerprint)
    assert here.store.objects.read(f"{key}/ray_train/checkpoint_0/state.pt") == b"state"
    here.pull(work)
    assert not work.exists()  # nobody needs them here
