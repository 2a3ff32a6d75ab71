"""What a store holds of earlier versions of a stage is said when a sweep is continued."""

from dataclasses import replace

from tiny import write_tiny

from smoothsweep.orchestrator.planning.plan import make_plan
from smoothsweep.orchestrator.planning.proposals import trials_of
from smoothsweep.orchestrator.running.sweep_run import earlier_versions_line
from smoothsweep.sweeps.load import load_sweep
from smoothsweep.tasks.registry import TASKS
from tests.recorded import recorded


def test_how_many_artifacts_of_earlier_versions_stand_there(tmp_path, monkeypatch):
    trials, store = recorded(tmp_path, seeds=[1, 2])
    assert earlier_versions_line(store, make_plan(trials, store).missing) is None
    count = len({stage.fingerprint for trial in trials for stage in trial.stages if stage.name == "judge_embedder"})
    was = TASKS["judge_embedder"].version
    for raised in (1, 2):
        now = was + raised
        monkeypatch.setitem(TASKS, "judge_embedder", replace(TASKS["judge_embedder"], version=now))
        fresh = trials_of(load_sweep(write_tiny(tmp_path, seeds=[1, 2])))
        missing = make_plan(fresh, store).missing
        assert {stage.name for stage in missing} == {"judge_embedder"}
        said = earlier_versions_line(store, missing)
        assert said.endswith(f"are not used: {count} judge embedder (version {was}, now {now})") and "\n" not in said
