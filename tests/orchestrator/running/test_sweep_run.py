"""One call of `run`: what is planned is what is run, once, also beside another driver; recorded beside the work."""

import dataclasses
import hashlib
import random
import shutil
import threading
import time
from hashlib import sha256
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from benchmarks.sleeping import Sleep
from smoothsweep.core.errors import ArtifactDamaged
from smoothsweep.core.models.embedders import FaceNet
from smoothsweep.core.models.fid_network import FidInception
from smoothsweep.core.priors.eigenfaces import Eigenfaces
from smoothsweep.orchestrator.planning.costs import reference_s
from smoothsweep.orchestrator.planning.plan import make_plan
from smoothsweep.orchestrator.planning.state import SweepState
from smoothsweep.orchestrator.planning.trial import inversion_stages, run_trial, trials_of
from smoothsweep.orchestrator.result.rows import trial_row
from smoothsweep.orchestrator.running.recorder import REPORT, Patience, Recorder
from smoothsweep.orchestrator.running.sweep_run import SweepRun
from smoothsweep.orchestrator.scheduling.execute import execute, execute_shard, execute_with_inputs
from smoothsweep.orchestrator.stages import stage as kinds
from smoothsweep.orchestrator.stages.stage import Stage
from smoothsweep.orchestrator.store.opening import open_store
from smoothsweep.sweeps.expand import LoadedSweep, check
from smoothsweep.sweeps.load import load_sweep
from tests.tiny import TRAINING, tiny_sweep, write_tiny

EVERYTHING = {
    **tiny_sweep()["judges"],
    "features": {"classes": 2, "perplexity": 2},
    "robustness": {},
    "membership": {"shadows": 4},
    "gradients": {},
}


@pytest.mark.parametrize("judges", [{}, tiny_sweep()["judges"], EVERYTHING])
def test_what_a_trial_declares_is_what_is_run_once_each_and_inputs_first(judges, tmp_path):
    [trial] = trials_of(load_sweep(write_tiny(tmp_path, judges=judges, grid={}, baseline={})))
    ran: list[Stage] = []
    run_trial(trial, ran.append)
    assert len({stage.fingerprint for stage in ran}) == len(ran)
    assert {stage.fingerprint for stage in ran} == {stage.fingerprint for stage in trial.stages}
    place = {stage.fingerprint: number for number, stage in enumerate(ran)}
    for stage in ran:
        assert all(place.get(source.fingerprint, -1) < place[stage.fingerprint] for source in stage.inputs.values())


def test_ids_of_trials_are_those_of_the_declared_order(tmp_path):
    """Kept from before stages were run in an order of their own: an id stands in every MLflow run."""
    [trial] = trials_of(load_sweep(write_tiny(tmp_path, judges=EVERYTHING, grid={}, baseline={})))
    names = [stage.name for stage in trial.stages]
    assert names == [
        "data",
        "target",
        "attack",
        "loot",
        "judge_evaluator",
        "judge_embedder",
        "knowledge",
        "judge_features",
        "judge_robustness",
        "judge_membership",
        "judge_gradients",
    ]
    joined = " ".join(stage.fingerprint for stage in trial.stages)
    assert trial.id == hashlib.sha256(joined.encode()).hexdigest()[:12]


def entry(stage, at):
    return {"stage": stage, "fingerprint": f"{at:064x}", "fraction": 0.5, "since": time.time(), "text": "class 3"}


def state():
    found = SweepState(name="s", total_trials=4, total_stages=9, done_stages=2)
    found.running = [*(entry("loot", at) for at in range(3)), entry("judge_evaluator", 3), entry("pool", 4)]
    return found


POLL_S, CORES = 1.0, 2


def begun(folder, *overrides: str) -> SweepRun:
    store, parts = open_store(str(folder)), dict.fromkeys(("recorder", "display", "meter"), None)
    plan = make_plan(trials_of(load_sweep(Path("sweeps/quickstart.yaml"), [*overrides])), store)
    plan = dataclasses.replace(plan, trials=[])  # nobody asks the empty store what the judges know
    return SweepRun(name="quickstart", plan=plan, store=store, **parts)


def moments(run: SweepRun, pace: float):
    """(seconds since the start, seconds left, whether a stage has ended since the last moment) of a simulated run."""
    draw, waiting = random.Random(0), [*run.plan.missing]
    busy: dict[str, tuple[Any, float, float]] = {}  # fingerprint -> stage, when it began, how long it takes
    now, ended = 0.0, False
    while waiting or busy:
        for stage, begun_at, takes in list(busy.values()):
            if now >= begun_at + takes:
                del busy[stage.fingerprint]
                run.worked[stage.fingerprint] += takes
                run.stage_done(stage.fingerprint, takes)
                ended = True
        while waiting and len(busy) < CORES:
            stage = waiting.pop(0)
            busy[stage.fingerprint] = (stage, now, pace * draw.uniform(0.5, 2.0) * (reference_s(stage) or 0.0))
        run.state.running = [{"fingerprint": key, "seconds": now - since} for key, (_, since, _) in busy.items()]
        run.forecast(CORES)
        yield now, run.state.seconds_left, ended
        now, ended = now + POLL_S, False


@pytest.mark.parametrize("pace", [1.0, 3.0])
def test_the_time_left_is_known_at_once_shrinks_at_every_moment_and_learns_the_machines_pace(tmp_path, pace):
    run = begun(tmp_path / "store")
    seen = list(moments(run, pace))
    assert seen[0][1] > 60 and run.state.unknown_stages == 0 and seen[-1][1] == 0.0
    assert all(now < before for (_, before, _), (_, now, ended) in pairwise(seen) if not ended)
    end = seen[-1][0]
    at, left, _ = seen[len(seen) // 4]
    assert left == pytest.approx(end - at, rel=0.4)


SHORT = Patience(first=0.01, most=0.02, finish=0.3)


class FakeTracker:
    """Stands where MLflow would: away, or refusing some trials, as told; keeps what it is given."""

    def __init__(self, *, away=0, refused=()):
        self.away, self.refused = away, set(refused)
        self.recorded, self.closed, self.refreshed, self.parents = [], [], 0, 0

    def sweep_run(self, name, tags):
        self.parents += 1
        return "parent"

    def answers(self):
        return self.away <= 0

    def refresh(self):
        self._reach()
        self.refreshed += 1

    def record(self, trial, parent, failure):
        self._reach()
        if trial.id in self.refused:
            raise OSError("refused: a param of another value")
        self.recorded.append((trial.id, parent, failure))

    def close_sweep(self, parent, trials, *, failed, models, **_):
        self._reach()
        self.closed.append((parent, failed, models, len(trials)))
        return ["a remark"]

    def _reach(self):
        if self.away > 0:
            self.away -= 1
            raise OSError("connection refused")


@pytest.fixture
def trials(tmp_path):
    return trials_of(load_sweep(write_tiny(tmp_path, seeds=[1, 2])))


def recorder_of(tracker, **changes):
    return Recorder(lambda: tracker, "tiny", {}, patience=Patience(**{**vars(SHORT), **changes}))


def test_an_outage_is_sat_out_however_many_attempts_it_takes(trials):
    tracker = FakeTracker(away=12)
    recorder = recorder_of(tracker, finish=30)
    for trial in trials:
        recorder.add(trial)
    recorder.finish()
    assert [entry[0] for entry in tracker.recorded] == [trial.id for trial in trials] and not recorder.unwritten
    assert tracker.refreshed == 1, "what seemed lost is looked up before anything is written again"


def test_adding_returns_at_once_while_the_tracker_never_answers(trials):
    never = threading.Event()

    class Stuck(FakeTracker):
        def record(self, trial, parent, failure):
            never.wait(200)

    recorder = recorder_of(Stuck())
    started = time.monotonic()
    for trial in trials:
        recorder.add(trial)
    assert time.monotonic() - started < 60, "adding waits for nobody"
    recorder.finish()
    recorder.close(trials, failed=0)
    assert time.monotonic() - started < 120, "the end of the sweep waits a bounded time"
    assert set(recorder.unwritten) == {*(trial.id for trial in trials), REPORT}
    never.set()


def test_a_long_outage_is_named_with_every_trial_that_is_missing(trials):
    tracker = FakeTracker(away=10**9)
    recorder = recorder_of(tracker)
    for trial in trials:
        recorder.add(trial)
    recorder.finish()
    recorder.close(trials, failed=0)
    assert recorder.unwritten == dict.fromkeys([*(trial.id for trial in trials), REPORT], "connection refused")
    assert not tracker.recorded and not tracker.closed


def test_what_is_written_after_nobody_waited_any_more_is_not_called_missing(trials):
    tracker = FakeTracker(away=10**9)
    recorder = recorder_of(tracker)
    recorder.add(trials[0])
    recorder.finish()
    assert set(recorder.unwritten) == {trials[0].id}
    tracker.away, late = 0, time.monotonic() + 60
    while not tracker.recorded and time.monotonic() < late:
        time.sleep(0.01)
    recorder.finish()
    recorder.close(trials, failed=0)
    assert not recorder.unwritten and tracker.closed


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


@pytest.fixture(scope="module")
def weights(tmp_path_factory):
    folder = tmp_path_factory.mktemp("weights")
    torch.manual_seed(0)
    torch.save(FaceNet().network.state_dict(), folder / "facenet.pt")
    torch.save(FidInception().state_dict(), folder / "fid.pth")
    return folder


def trial_with_every_judge(weights, protocol, **attack):
    fid = weights / "fid.pth"
    raw = tiny_sweep(protocol=protocol, grid={}, baseline={})
    raw["data"].update(identities=2, train_per_class=4, test_per_class=2)
    raw["attack"].update(attack)
    raw["judges"] = {
        "evaluator": {"architecture": "vgg_small", **TRAINING},
        "embedder": {"name": "facenet", "weights": str(weights / "facenet.pt")},
        "fidelity": {
            "weights": str(fid),
            "sha256": sha256(fid.read_bytes()).hexdigest(),
            "neighbours": 1,
        },
        "knowledge": {"architecture": "resnet_small", **TRAINING, "batch_size": 4, "lr": 0.05, "image_size": 48},
    }
    [trial] = trials_of(LoadedSweep(sweep=check(raw, "tiny"), raw=raw, intro="", source="tiny"))
    return trial


@pytest.mark.parametrize(
    ("protocol", "attack"), [("paper", {}), pytest.param("clean", {"reconstruction_size": 16}, marks=pytest.mark.slow)]
)
def test_one_synthesis_serves_every_judge(tmp_path, weights, monkeypatch, protocol, attack):
    store = open_store(str(tmp_path / "store"))
    store.open_for_writing()
    trial = trial_with_every_judge(weights, protocol, **attack)
    stages = inversion_stages(trial.settings, trial.seed)
    execute_with_inputs(store, stages.attack)
    images, synthesize = [], Eigenfaces.synthesize
    monkeypatch.setattr(Eigenfaces, "synthesize", lambda prior, w: images.append(len(w)) or synthesize(prior, w))
    for stage in stages:
        execute_with_inputs(store, stage)
    assert sum(images) == 2 * trial.settings.attack.selected
    row = trial_row(trial, store)
    judged = ("attack_acc1", "dist_eval", "dist_face", "fid", "kid", "precision", "coverage", "xi_train", "xi_test")
    assert row["status"] == "done" and all(row[name] is not None for name in judged)
    kept = {
        path.name: load_file(path)["images"] for path in store.path(stages.reconstructions).glob("images*.safetensors")
    }
    if protocol == "paper":
        sizes = {f"images_{size}.safetensors": (torch.float16, size) for size in (32, 48, 160, 299)}
        assert {name: (images.dtype, images.shape[-1]) for name, images in kept.items()} == sizes
    else:
        assert kept["images.safetensors"].dtype == torch.uint8 and kept["images.safetensors"].shape[-1] == 16
