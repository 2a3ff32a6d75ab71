"""What a search may spend, what is counted and kept, and notes of a sweep that are damaged."""

import json

import pytest

from smoothsweep.orchestrator.commands.reporting.report import report_data
from smoothsweep.orchestrator.page.render import render
from smoothsweep.orchestrator.planning.state import STATE_FILE, SweepState, read_failures, read_state, write_state
from smoothsweep.orchestrator.planning.trial import PROPOSALS, REAUDIT, ProposalLog, trials_of
from smoothsweep.orchestrator.result.format import ascii_text
from smoothsweep.orchestrator.result.rows import results_table
from smoothsweep.orchestrator.result.sweep_result import result_of
from smoothsweep.orchestrator.search import agenda
from smoothsweep.orchestrator.search.agenda import Meter, spent
from smoothsweep.orchestrator.search.record import frontier_recipes
from smoothsweep.orchestrator.store import base
from smoothsweep.orchestrator.store.base import Store
from smoothsweep.sweeps.search import Budget
from tests.harm import HARMS, harmed
from tests.orchestrator.search.made import ALPHA, finish, load, work_off

RANDOM = {"strategy": "random", "recipes": 6}


def snapshot(running=(), ended=()):
    return {
        "running": [{"stage": kind, "fingerprint": "f", "device_seconds": s} for kind, s in running],
        "events": [{"what": "work", "stage": kind, "fingerprint": "f", "device_seconds": s} for kind, s in ended],
    }


def test_device_time_of_what_runs_and_what_has_ended_counts(tmp_path):
    meter = Meter(Store(root=tmp_path), "s", Budget(device_hours=0.1))
    meter.update(snapshot(running=[("target", 100.0)]))
    meter.update(snapshot(running=[("target", 150.0), ("attack", 20.0)]))
    assert meter.device_s == 170.0 and meter.exceeded() is None
    meter.update(snapshot(running=[("attack", 140.0)], ended=[("target", 220.0)]))
    assert meter.device_s == 360.0 and meter.exceeded() == "0.1 of 0.1 device-hours"
    assert Meter(Store(root=tmp_path), "other", None).exceeded(0.9) is None
    meter = Meter(Store(root=tmp_path), "reserved", Budget(device_hours=0.1))
    meter.update(snapshot(ended=[("target", 290.0)]))
    assert meter.exceeded(0.2) == "0.0806 of 0.1 device-hours" and meter.exceeded() is None


def test_a_killed_run_loses_nothing_that_was_noted(tmp_path):
    store = Store(root=tmp_path)
    first = Meter(store, "s", None)
    first.update(snapshot(running=[("target", 30.0)], ended=[("data", 5.0)]))
    first.save()
    first.update(snapshot(running=[("target", 40.0)]))
    first.save()  # and here it is killed
    second = Meter(store, "s", Budget(device_hours=50 / 3600))
    assert second.device_s == 45.0
    second.update(snapshot(ended=[("target", 10.0)]))
    second.save()
    assert second.exceeded() and spent(store, "s")[0] == 55.0
    notes = [path for path in (store.sweep_folder("s") / "spent").iterdir() if ".copy" not in path.name]
    lines = [json.loads(line) for path in notes for line in path.read_text().splitlines()[1:]]
    assert len(notes) == 2 and sum("wall_seconds" in line for line in lines) == 2


@pytest.fixture
def often(monkeypatch):
    """Every look at the notes of other drivers is taken at once."""
    monkeypatch.setattr(agenda, "LOOK_EVERY_S", 1e-9)


@pytest.mark.parametrize("drivers", [2, 3])
def test_what_all_drivers_of_a_sweep_spend_at_the_same_time_counts(tmp_path, often, drivers):
    """Two drivers once used 6,000 s, noted 3,000 and neither stopped at 3,600."""
    store, share = Store(root=tmp_path), 3000.0
    meters = [Meter(store, "s", Budget(device_hours=1.0)) for _ in range(drivers)]
    stopped = []
    for done in range(0, int(share) + 1, 100):
        for number, meter in enumerate(meters):
            meter.update(snapshot(running=[("target", float(done))]))
            meter.save()
            if meter.exceeded():
                stopped.append((done, number))
    first = {number: min(done for done, other in stopped if other == number) for number in range(drivers)}
    assert all(abs(done * drivers - 3600) <= 100 * drivers for done in first.values()), "each stops at the limit"
    assert spent(store, "s")[0] == drivers * share == meters[-1].device_s
    assert Meter(store, "s", None).device_s == drivers * share
    Meter(store, "another", None).save()
    assert spent(store, "another")[0] == 0.0


def test_the_frontier_is_audited_again_under_fresh_seeds(tmp_path):
    store = Store(root=tmp_path / "store")
    loaded = load(
        tmp_path,
        {**RANDOM, "recipes": 12, "constraints": {"test_acc": {"at_least": 0.85}}},
        reaudit={"seeds": [101, 102, 103], "recipes": 3},
    )
    work_off(loaded, store)
    assert ProposalLog(loaded, store).reaudit() is None
    main = trials_of(loaded, store)
    recipes = frontier_recipes(loaded, main, store)
    assert 1 <= len(recipes) <= 3
    ProposalLog(loaded, store).write_reaudit(recipes)
    trials = ProposalLog(loaded, store).reaudit_trials()
    assert len(trials) == 3 * len(recipes) and {t.seed for t in trials} == {101, 102, 103}
    assert {t.phase for t in trials} == {"reaudit"} and not {t.id for t in trials} & {t.id for t in main}
    assert {trial.cell.values[ALPHA] for trial in trials} == {recipe[ALPHA] for recipe in recipes}
    for trial in trials:
        finish(store, trial)
    assert frontier_recipes(loaded, trials_of(loaded, store), store) == recipes  # which does not look at the re-audit
    every = trials_of(loaded, store)
    data = report_data(loaded, every, store, results_table(every, store, {}), tmp_path)
    assert set(data.fresh["seed"]) == {101, 102, 103} and (data.min_test_acc, data.primary) == (0.85, "embedder_acc1")
    assert data.search.strategy == "random" and set(data.results["phase"]) == {"sweep"}
    page = ascii_text(render(data, result_of(data)))
    assert all(f'id="{ident}"' in page for ident in ("search", "fresh", "cost", "results"))
    assert "Among the recipes with at least 85.0 % test accuracy" in page and "Checked again: " in page


RANDOM_SEARCH = {"strategy": "random", "recipes": 5}
SPENT = "spent/0123456789ab.jsonl"


@pytest.fixture(scope="module")
def search(tmp_path_factory):
    """A search that is through, and every note that a sweep leaves."""
    folder = tmp_path_factory.mktemp("made")
    store = Store(root=folder / "store")
    store.open_for_writing()
    loaded = load(folder, RANDOM_SEARCH, reaudit={"seeds": [7, 8], "recipes": 2})
    work_off(loaded, store)
    meter = Meter(store, "made", None)
    meter._own = SPENT.removesuffix(".jsonl")  # else a random name
    meter.update({"events": [{"what": "work", "stage": "target", "device_seconds": 40.0}], "running": []})
    meter.save()
    write_state(
        store,
        "made",
        SweepState(name="made", total_stages=1, done_stages=1, total_trials=1),
        {"abc": "a cause"},
        finished=False,
    )
    ProposalLog(loaded, store).write_reaudit([{"recipe.defense.alpha": 0.0}])
    agenda.write_end(ProposalLog(loaded, store), "recipes")
    return loaded, store


def read(loaded, store):
    """What each note tells."""
    return {
        STATE_FILE: (read_failures(store, "made"), read_state(store, "made") is None),
        SPENT: spent(store, "made")[0],
        REAUDIT: ProposalLog(loaded, store).reaudit(),
        agenda.ENDED: agenda.read_end(ProposalLog(loaded, store)),
        PROPOSALS: len(ProposalLog(loaded, store).proposals()),
    }


WITHOUT = {STATE_FILE: ({}, True), SPENT: 40.0, REAUDIT: None, agenda.ENDED: None, PROPOSALS: 0}


SEALED = (SPENT, PROPOSALS)  # of the others a flipped bit may leave another note of the same form


@pytest.mark.parametrize(
    ("note", "how"),
    [*((note, how) for note in WITHOUT for how in HARMS), *((note, f"bit {n}") for note in SEALED for n in range(9))],
)
def test_a_damaged_note_is_set_aside_with_one_line(search, note, how, monkeypatch, capsys):
    loaded, store = search
    monkeypatch.setattr(base, "_told", set())
    path = store.sweep_folder("made") / note
    before, whole = path.read_bytes(), read(loaded, store)
    try:
        path.write_bytes(harmed(before, how))
        got = read(loaded, store)
        expected = {**whole, note: WITHOUT[note]}
        if note == PROPOSALS:
            expected[agenda.ENDED] = None  # the end of a search that knows of no proposal is none
        assert got == expected
        said = capsys.readouterr().err
        assert said.count("\n") == 1 and f"made: {note} is damaged, and set aside" in said
        assert not path.exists() and len(list(path.parent.glob(f"{path.name}.damaged-*"))) == 1
        assert read(loaded, store) == expected and capsys.readouterr().err == ""
    finally:
        path.write_bytes(before)
        for aside in path.parent.glob("*.damaged-*"):
            aside.unlink()
