"""A store as a finished run leaves it, with made-up numbers and no files: for doors that read manifests alone."""

from smoothsweep.orchestrator.commands.status import names_of
from smoothsweep.orchestrator.planning.state import write_trial_notes
from smoothsweep.orchestrator.planning.trial import trials_of
from smoothsweep.orchestrator.stages.stage import with_ancestors
from smoothsweep.orchestrator.store.base import Store
from smoothsweep.sweeps.load import load_sweep
from tests.tiny import write_tiny

NUMBERS = {"target": "test_acc", "judge_embedder": "embedder_acc1", "judge_evaluator": "attack_acc1"}


def recorded(folder, *, root=None, without=(), code="1a2b3c", **changes):
    """The trials of a tiny sweep, and their store. without: kinds of stages that have not finished."""
    folder.mkdir(exist_ok=True)
    loaded = load_sweep(write_tiny(folder, **changes))
    store, trials = Store(root=root or folder / "store"), trials_of(loaded)
    store.open_for_writing()
    for stage in with_ancestors([stage for trial in trials for stage in trial.stages]):
        if stage.name in without or store.has(stage):
            continue
        inputs = {role: {"stage": one.name, "fingerprint": one.fingerprint} for role, one in stage.inputs.items()}
        metrics = {NUMBERS[stage.name]: int(stage.fingerprint[:4], 16) / 65535} if stage.name in NUMBERS else {}
        draft = store.draft(stage)
        (draft / "what.txt").write_text(stage.name)
        manifest = {
            **stage.identity(),
            "inputs": inputs,
            "metrics": metrics,
            "seconds": 2.5,
            "finished_at": 1.7e9,
            "code_version": code,
            "device": "cpu",
            "host": "here",
            "libraries": {"torch": "2"},
        }
        store.commit(stage, draft, manifest)
    write_trial_notes(store, loaded.sweep.name, trials, names_of(loaded, trials))
    return trials, store
