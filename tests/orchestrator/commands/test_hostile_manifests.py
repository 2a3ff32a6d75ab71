"""Manifests that somebody damaged or wrote on purpose, by name: what is done to the file."""

import contextlib
import json
import math
import os
import shutil
import signal

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from smoothsweep.orchestrator.cli import main
from smoothsweep.orchestrator.planning.state import write_trial_notes
from smoothsweep.orchestrator.planning.trial import trials_of
from smoothsweep.orchestrator.stages.stage import with_ancestors
from smoothsweep.orchestrator.store import base
from smoothsweep.orchestrator.store.base import Store
from smoothsweep.orchestrator.store.manifests import Damage, read_manifest, sealed
from smoothsweep.sweeps.load import load_sweep
from tests import made_stores as made_up
from tests.tiny import write_tiny


def nested(depth):
    value = 1
    for _ in range(depth):
        value = {"in": value}
    return value


INNER = ("metrics", "sizes", "files", "inputs", "config", "libraries")
OUTER = ("seconds", "finished_at", "stage", "version", "code_version", "device", "host", "fingerprint", "result")
KEYS = (*INNER, *OUTER)


def whole(manifest, seal):
    seal = seal and isinstance(manifest.get("files"), dict)  # no other can be sealed
    return json.dumps(sealed(manifest) if seal else {k: v for k, v in manifest.items() if k not in ("seal", "result")})


def told(key, value):
    """Sealed with this value; of what is inside, in the place of each value and beside it."""

    def change(path):
        manifest = json.loads(path.read_text())
        inside = dict.fromkeys(manifest.get(key) or {}, value) | {"test_acc": value} if key in INNER else value
        path.write_text(whole({**manifest, key: inside}, True))

    return change


def made_of_what_was_made_of_it(path):
    """A circle through another artifact of the same store."""
    manifest = json.loads(path.read_text())
    other = next(one for one in path.parent.parent.parent.glob("judge_embedder/*/manifest.json"))
    manifest["inputs"] = {"data": {"stage": "judge_embedder", "fingerprint": other.parent.name}}
    path.write_text(whole(manifest, True))


def a_folder(path):
    path.unlink()
    path.mkdir()


def a_pipe(path):
    path.unlink()
    os.mkfifo(path)


def a_device(path):
    path.unlink()
    path.symlink_to("/dev/zero")


CORPUS = {
    **{f"{key} {value!r:.9}": told(key, value) for key in KEYS for value in ("\x1b]0;x\x07", 10**400, nested(500))},
    "no object": lambda path: path.write_bytes(b"[]"),
    "deep": lambda path: path.write_bytes(b"[" * 10**5),
    **{change.__name__: change for change in (made_of_what_was_made_of_it, a_folder, a_pipe, a_device)},
}
OFTEN = {*list(CORPUS)[::7], "made_of_what_was_made_of_it", "a_folder", "a_pipe", "a_device"}
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
        write_trial_notes(store, loaded.sweep.name, trials, lambda trial: (trial.label, ""))
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
        ("store", "verify"),
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
