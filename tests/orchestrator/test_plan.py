"""Plans and forecasts: what would run, and what is known of its cost."""

import json

from tiny import write_tiny

from orchestrator.cli import main
from orchestrator.execute import code_version
from orchestrator.history import read_history
from orchestrator.plan import make_plan, plan_summary, plan_text
from orchestrator.progress import SweepState, duration
from orchestrator.stage import with_ancestors
from orchestrator.store import Store
from orchestrator.trial import trials_of
from sweeps.load import load_sweep


def pretend(store, stage, seconds):
    draft = store.draft(stage)
    store.commit(stage, draft, {**stage.identity(), "metrics": {}, "seconds": seconds, "finished_at": 0.0})


def test_what_is_shared_is_counted_once(tmp_path):
    trials = trials_of(load_sweep(write_tiny(tmp_path), ["seeds=[1, 2]"]))
    plan = make_plan(trials, Store(root=tmp_path / "store"))
    summary = plan_summary(plan, Store(root=tmp_path / "store"))
    totals = {name: row["total"] for name, row in summary["by_stage"].items()}
    assert totals == {
        "data": 1, "public": 1, "prior": 1, "pool": 1, "target": 5, "candidates": 4, "attack": 4, "loot": 4,
        "embeddings": 2, "judge_evaluator": 4, "judge_embedder": 4, "knowledge": 4,
    }  # fmt: skip
    assert summary["device_hours"] is None and "unknown" in plan_text(summary)


def test_costs_come_from_stages_of_the_same_size_and_unknown_stays_unknown(tmp_path):
    store = Store(root=tmp_path / "store")
    trials = trials_of(load_sweep(write_tiny(tmp_path)))
    targets = [s for s in with_ancestors([x for t in trials for x in t.stages]) if s.name == "target"]
    mine = [s for s in targets if s.config["architecture"] == "resnet_small"]
    pretend(store, mine[0], 12.0)
    history = read_history(store, ["target"])
    assert history.expected(mine[1]) == (12.0, 12.0, 12.0)
    evaluator = next(s for s in targets if s.config["architecture"] == "vgg_small")
    assert history.expected(evaluator) is None
    row = plan_summary(make_plan(trials, store), store)["by_stage"]["target"]
    assert (row["cached"], row["to_run"], row["stages_of_unknown_cost"]) == (1, 2, 1)


def test_inputs_of_finished_stages_are_not_asked_for(tmp_path):
    store = Store(root=tmp_path / "store")
    trials = trials_of(load_sweep(write_tiny(tmp_path)))
    for stage in trials[0].stages:
        pretend(store, stage, 1.0)
    plan = make_plan(trials, store)
    assert plan.is_complete(trials[0]) and not plan.is_complete(trials[1])
    assert {s.name for s in make_plan(trials[:1], store).missing} == set()


def test_fingerprints_know_content_not_place(tmp_path):
    settings = {"kind": "labelled", "path": str(tmp_path / "a.bin"), "size": 32}
    (tmp_path / "a.bin").write_bytes(b"faces")
    (tmp_path / "b.bin").write_bytes(b"faces")
    changes = [f"data={json.dumps({**settings, 'path': str(tmp_path / name)})}" for name in ("a.bin", "b.bin")]
    first, second = (trials_of(load_sweep(write_tiny(tmp_path), [c]))[0] for c in changes)
    assert first.id == second.id
    (tmp_path / "b.bin").write_bytes(b"other faces, another length")
    from orchestrator.fingerprints import _digest

    _digest.cache_clear()
    assert trials_of(load_sweep(write_tiny(tmp_path), [changes[1]]))[0].id != first.id


def test_durations_read_like_durations():
    assert [duration(s) for s in (0, 41.6, 185, 7800)] == ["0 s", "42 s", "3 min 05 s", "2 h 10 min"]
    state = SweepState(name="x", total_stages=4, done_stages=1, total_trials=2, failed_trials=1)
    assert "1/4 stages, 0/2 trials, 1 failed" in state.headline()


def test_the_code_has_a_version():
    assert code_version()


def test_a_crop_larger_than_the_priors_images_is_refused_before_anything_starts(tmp_path, capsys):
    path = write_tiny(tmp_path, prior={"kind": "shipped"}, public=None)
    arguments = ["plan", str(path), "--store", str(tmp_path / "store"), "--set", "attack.pool.crop=800"]
    assert main(arguments) == 2
    assert "attack.pool.crop: expected at most the prior's 64 pixels, got 800" in capsys.readouterr().err
