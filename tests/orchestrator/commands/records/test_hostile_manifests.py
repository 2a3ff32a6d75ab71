"""Manifests that somebody damaged or wrote on purpose: every command that reads ends in time, with words of ours."""

import contextlib
import math
import shutil
import signal

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from smoothsweep.orchestrator.cli import main
from smoothsweep.orchestrator.page.drawing.canvas import Canvas
from smoothsweep.orchestrator.planning.proposals import trials_of
from smoothsweep.orchestrator.planning.state import write_trial_notes
from smoothsweep.orchestrator.stages.stage import with_ancestors
from smoothsweep.orchestrator.store import base
from smoothsweep.orchestrator.store.base import Store
from smoothsweep.orchestrator.store.manifests import Damage, read_manifest
from smoothsweep.sweeps.load import load_sweep
from tests import made_artifacts as made_up
from tests.orchestrator.commands.records.hostile_manifests import CORPUS, KEYS, OFTEN, whole
from tests.tiny import write_tiny

IN_TIME_S = 60


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("hostile")
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {"EPOCHS": 3, "CLASSES": 2, "SIDE": 8}.items():
            patch.setattr(made_up, name, value)
        loaded = load_sweep(write_tiny(folder, seeds=[1]))
        store, trials = Store(root=folder / "store"), trials_of(loaded)
        store.open_for_writing()
        made_up.write_artifacts(trials, store)
        write_trial_notes(store, loaded.sweep.name, trials)
    return folder, trials, store


@contextlib.contextmanager
def in_time():
    def late(*_):
        raise AssertionError(f"no end within {IN_TIME_S} s")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(IN_TIME_S)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def commands(folder, trials):
    """The last of them writes."""
    sweep = str(next(folder.glob("*.yaml")))
    a, b = (trial.id for trial in trials[:2])
    return [
        ("lineage", a),
        ("lineage", a, "--json"),
        ("diff", a, b),
        ("diff", a, b, "--json"),
        ("status", sweep),
        ("plan", sweep, "--json"),
        ("report", sweep),
    ]


KINDS = ("target", "data", "judge_embedder", "attack")


@pytest.mark.parametrize(
    "harm", [pytest.param(harm, marks=() if harm in OFTEN else pytest.mark.slow) for harm in CORPUS]
)
def test_every_command_that_reads_ends_with_words_of_ours(harm, made, tmp_path, capsys, monkeypatch):
    folder, trials, store = made
    root = shutil.copytree(store.root, tmp_path / "store")
    kind = KINDS[list(CORPUS).index(harm) % len(KINDS)]
    stage = next(stage for stage in with_ancestors(trials[0].stages) if stage.name == kind)
    CORPUS[harm](root / kind / stage.fingerprint / "manifest.json")
    monkeypatch.setattr(Canvas.png, "__defaults__", (16,))  # everything is drawn, on fewer dots
    for command in commands(folder, trials):
        monkeypatch.setattr(base, "_told", set())
        monkeypatch.setattr(base, "_whole", {})
        with in_time():
            code = main([*command, "--store", str(root)])
        said = capsys.readouterr()
        assert code in (0, 1, 2) and "Traceback" not in said.out + said.err, command
        assert "\x1b" not in said.out + said.err, command
        if code == 2:
            assert said.err.count("\n") >= 1


@pytest.mark.parametrize(
    "harm",
    [
        "a_pipe",
        "a_folder",
        "made_of_itself",
        "seconds 10^400 sealed",
        "in metrics 10^400",
        "config infinite sealed",
        "in config NaN",
        "'{'",
    ],
)
def test_doctor_goes_on_to_the_others(harm, made, tmp_path, capsys, monkeypatch):
    _, trials, store = made
    root = shutil.copytree(store.root, tmp_path / "store")
    total = len(list(root.glob("*/*/manifest.json")))
    found = CORPUS.get(harm) or CORPUS[repr(b"{")]
    target = next(stage for stage in trials[0].stages if stage.name == "target")
    found(root / target.name / target.fingerprint / "manifest.json")
    with in_time():
        assert main(["doctor", "--store", str(root)]) in (0, 1)
    said = capsys.readouterr().out
    assert f"MISS  store: target {target.fingerprint[:8]}: " in said
    assert f"{total - 1} artifacts" in said


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.integers(min_value=10**300) | st.floats() | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner, max_size=3),
    max_leaves=6,
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(key=st.sampled_from(KEYS), value=json_values, inside=st.booleans())
def test_what_is_read_is_what_can_be_computed_with(made, key, value, inside):
    """Whatever stands in a manifest: it is Damage, or every fact that anybody reads is of its kind and size."""
    _, trials, store = made
    stage = trials[0].stages[0]
    manifest = dict(store.manifest(stage))
    manifest[key] = {**manifest[key], "new": value} if inside and isinstance(manifest.get(key), dict) else value
    seal = isinstance(manifest["files"], dict)  # nobody can seal another
    try:
        read = read_manifest(whole(manifest, seal).encode(), stage.name, stage.fingerprint)
    except Damage as damage:
        assert "\n" not in str(damage)
        return
    assert math.isfinite(float(read["seconds"])) and 0 <= read["finished_at"] < 253402300800
    assert all(number is None or isinstance(float(number), float) for number in read["metrics"].values())
    assert isinstance(read["config"], dict) and isinstance(read["code_version"], str)
    assert all(len(source["fingerprint"]) == 64 for source in read["inputs"].values())
