"""Damaged notes of a sweep: one line, set aside, made again; never a traceback, never taken for whole."""

import pytest
from harm import HARMS, harmed

from benchmarks.sleeping import Sleep
from smoothsweep.orchestrator.planning.state import STATE_FILE, SweepState, read_failures, read_state, write_state
from smoothsweep.orchestrator.planning.trial import PROPOSALS, REAUDIT, ProposalLog
from smoothsweep.orchestrator.search import agenda
from smoothsweep.orchestrator.search.agenda import Meter, spent
from smoothsweep.orchestrator.store import base
from smoothsweep.orchestrator.store.base import Store
from smoothsweep.orchestrator.store.manifests import VERSION_FILE
from smoothsweep.orchestrator.store.opening import open_store
from tests.orchestrator.search.made import load, work_off

RANDOM = {"strategy": "random", "recipes": 5}
SPENT, COPY = "spent/0123456789ab.jsonl", "spent/0123456789ab.copy.jsonl"


@pytest.fixture(scope="module")
def search(tmp_path_factory):
    """A search that is through, and every note that a sweep leaves."""
    folder = tmp_path_factory.mktemp("made")
    store = Store(root=folder / "store")
    store.open_for_writing()
    loaded = load(folder, RANDOM, reaudit={"seeds": [7, 8], "recipes": 2})
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


def test_what_was_spent_is_forgotten_only_with_both_notes(search, capsys):
    _, store = search
    whole = {file: (store.sweep_folder("made") / file).read_bytes() for file in (SPENT, COPY)}
    for file, content in whole.items():
        (store.sweep_folder("made") / file).write_bytes(harmed(content, "zeroed"))
    assert spent(store, "made") == (0, 0) and "what was spent so far is forgotten" in capsys.readouterr().err
    for file, content in whole.items():
        store.write_note("made", file, content)


@pytest.mark.parametrize("how", HARMS)
@pytest.mark.parametrize("filled", [True, False])
def test_a_damaged_version_note_is_written_anew(tmp_path, how, filled, monkeypatch, capsys):
    stage = Sleep(config={"classes": 1})
    monkeypatch.setattr(base, "_told", set())
    store = Store(root=tmp_path)
    store.open_for_writing()
    if filled:
        store.commit(stage, store.draft(stage), {"metrics": {}})
    path = tmp_path / VERSION_FILE
    path.write_bytes(harmed(path.read_bytes(), how))
    again = open_store(str(tmp_path))
    assert "store.json is unreadable" in capsys.readouterr().err
    again.open_for_writing()
    assert path.read_bytes() == b'{"format": 2}'
    assert len(list(tmp_path.glob("store.json.damaged-*"))) == 1
    assert again.has(stage) == filled
