"""Two drivers on one stage: whoever comes second finds the artifact, and leaves nothing beside it."""

import shutil

import pytest

from benchmarks.sleeping import Sleep
from smoothsweep.core.errors import ArtifactDamaged
from smoothsweep.orchestrator.scheduling.execute import execute, execute_shard
from smoothsweep.orchestrator.stages import stage as kinds
from smoothsweep.orchestrator.store.opening import open_store


@pytest.fixture
def store(tmp_path):
    store = open_store(str(tmp_path / "store"))
    store.open_for_writing()
    return store


STAGE = Sleep(config={"classes": 2, "seconds": 0.0})


def finished_by_another(store, monkeypatch, *, then):
    """While our task runs, another driver finishes the stage and removes the work folder; then ours goes on."""
    real = kinds.task
    assert not store.has(STAGE)  # its version, which its fingerprint rests on, is asked for but once

    def meddle(name):
        monkeypatch.setattr(kinds, "task", real)
        execute(store, STAGE)
        shutil.rmtree(store.work(STAGE), ignore_errors=True)
        monkeypatch.setattr(kinds, "task", meddle)
        return then

    monkeypatch.setattr(kinds, "task", meddle)


class Fails:
    version = 1

    @staticmethod
    def function():
        def run(config, inputs, out, context):
            (context.work / "checkpoint.pt").write_text("")  # its folder has gone

        return run

    shard_function = function


def test_a_task_whose_work_folder_went_with_the_others_artifact_has_succeeded(store, monkeypatch):
    finished_by_another(store, monkeypatch, then=Fails)
    execute(store, STAGE)
    assert store.has(STAGE) and not store.work(STAGE).exists()
    assert [path.name for path in (store.root / "sleep").iterdir()] == [STAGE.fingerprint]


def test_a_shard_that_comes_too_late_leaves_nothing(store, monkeypatch):
    finished_by_another(store, monkeypatch, then=Fails)
    assert execute_shard(store, STAGE, [0]) == 1
    assert not store.work(STAGE).exists()


def test_without_the_artifact_the_error_is_the_tasks(store, monkeypatch):
    monkeypatch.setattr(kinds, "task", lambda name: Fails)
    monkeypatch.setattr(Fails, "function", staticmethod(lambda: lambda *_: (store.root / "nowhere").stat()))
    with pytest.raises(FileNotFoundError):
        execute(store, STAGE)
    assert not list((store.root / "sleep").glob(".*"))


@pytest.mark.parametrize("begin", [execute, lambda store, stage: execute_shard(store, stage, [0])])
def test_a_task_whose_input_goes_while_it_works_says_that_it_is_made_again(store, monkeypatch, begin):
    source = Sleep(config={"classes": 1, "seconds": 0.0})
    reads = Sleep(config={"classes": 2, "seconds": 0.0}, inputs={"source": source})
    execute(store, source)

    class Loses(Fails):
        @staticmethod
        def function():
            def run(config, inputs, *others):
                shutil.rmtree(inputs["source"])
                (inputs["source"] / "rows.parquet").read_bytes()

            return run

        shard_function = function

    monkeypatch.setattr(kinds, "task", lambda name: Loses)
    with pytest.raises(ArtifactDamaged, match=f"^{source.label}: it is not in the store any more; it is made again$"):
        begin(store, reads)
    assert not store.has(reads)
