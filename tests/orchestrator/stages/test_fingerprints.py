"""What goes into a fingerprint: whatever reaches a number, and nothing else; which code made an artifact."""

import hashlib
import re
import shutil
import subprocess

import pytest
import torch
from labelled_files import people, regular_folders
from safetensors.torch import load_file
from tiny import write_tiny

from smoothsweep.core.data.sources import content_digest, tree_digest
from smoothsweep.core.errors import InputError
from smoothsweep.core.judges.by_features import Embedder
from smoothsweep.core.same_code import code_digest
from smoothsweep.orchestrator.cli import main
from smoothsweep.orchestrator.planning.plan import make_plan
from smoothsweep.orchestrator.planning.trial import Trial, trials_of
from smoothsweep.orchestrator.scheduling.execute import execute_with_inputs
from smoothsweep.orchestrator.stages import stage as fingerprints
from smoothsweep.orchestrator.stages.stage import CODE_VERSION_VARIABLE, code_version, content_of, normalised
from smoothsweep.orchestrator.store.base import Store
from smoothsweep.orchestrator.store.opening import open_store
from smoothsweep.sweeps.load import load_sweep
from smoothsweep.sweeps.parts import PRIOR_MODELS, judge_model
from smoothsweep.sweeps.schema import Resources
from smoothsweep.tasks import planned_files
from tests.every_stage import every_stage

REACHES_NUMBERS = {"attack_rows": 3, "attack_compile": True, "attack_cuda_graphs": True}
NEUTRAL_RESOURCES = {
    "cpus_per_task": 2,
    "gpus_per_training": 2.0,
    "gpus_per_task": 1.0,
    "classes_per_task": 1,
    "trial_slots": 3,
    "training_timeout_minutes": 5.0,
    "attack_timeout_minutes": 5.0,
}


def test_every_resource_is_known_to_reach_numbers_or_not_to():
    assert set(Resources.model_fields) == set(REACHES_NUMBERS) | set(NEUTRAL_RESOURCES)


@pytest.mark.parametrize("name", [*REACHES_NUMBERS, *NEUTRAL_RESOURCES])
def test_a_resource_that_reaches_numbers_is_in_the_identity(tmp_path, name):
    plain = {stage.name: stage.fingerprint for stage in every_stage(tmp_path)}
    value = {**REACHES_NUMBERS, **NEUTRAL_RESOURCES}[name]
    changed = {stage.name: stage.fingerprint for stage in every_stage(tmp_path, resources={name: value})}
    others = {stage for stage in plain if plain[stage] != changed[stage]}
    reached = {"pool", "candidates", "attack", "loot"} | {stage for stage in plain if stage.startswith("judge")}
    assert others == ({*reached, "knowledge"} if name in REACHES_NUMBERS else set())


@pytest.fixture(scope="module")
def reconstructions(tmp_path_factory):
    """(rows, try) -> fingerprint and tensors of an attack and its reconstructions, in a new store for each try."""
    found = {}
    for attempt in range(2):
        folder = tmp_path_factory.mktemp("store")
        store = open_store(str(folder / "store"))
        store.open_for_writing()
        for rows in (None, 1, 3):
            stages = {s.name: s for s in every_stage(folder, resources={"attack_rows": rows}, judges={})}
            execute_with_inputs(store, stages["loot"])
            attack, reconstructions = (store.path(stages[name]) for name in ("attack", "loot"))
            assert store.manifest(stages["attack"])["metrics"]["rows_halved"] == 0
            tensors = {
                **load_file(attack / "reconstructions.safetensors"),
                **load_file(reconstructions / "images.safetensors"),
            }
            found[rows, attempt] = stages["loot"].fingerprint, tensors
    return found


def test_the_same_identity_gives_the_same_bits_and_other_rows_are_another(reconstructions):
    fingerprints = {rows: reconstructions[rows, 0][0] for rows in (None, 1, 3)}
    assert len(set(fingerprints.values())) == 3
    for rows, fingerprint in fingerprints.items():
        again, tensors = reconstructions[rows, 1]
        assert again == fingerprint
        assert all(torch.equal(reconstructions[rows, 0][1][name], tensor) for name, tensor in tensors.items())


def test_the_number_of_rows_does_reach_the_bits(reconstructions):
    """Else it could be left out of the identity."""
    latents = [reconstructions[rows, 0][1]["w"] for rows in (None, 1, 3)]
    assert any(not torch.equal(latents[0], other) for other in latents[1:])


def test_how_often_is_saved_changes_no_bit(tmp_path):
    weights = []
    for every in (1, 2):
        store = open_store(str(tmp_path / f"store{every}"))
        store.open_for_writing()
        stages = {stage.name: stage for stage in every_stage(tmp_path, judges={})}
        target = stages["target"]
        object.__setattr__(target, "hints", {"checkpoint_every": every})
        execute_with_inputs(store, target)
        weights.append(load_file(store.path(target) / "weights.safetensors"))
    assert all(torch.equal(weights[0][name], weights[1][name]) for name in weights[0])


GRID = {"recipe.defense.alpha": [0.0, -0.2], "recipe.lr": [0.001, 0.002]}


def test_every_fingerprint_is_the_one_of_a_trial_made_alone(tmp_path):
    """All trials planned together, in whatever order; and each made anew, with nothing remembered of another."""
    trials = trials_of(load_sweep(write_tiny(tmp_path, grid=GRID, baseline={}, seeds=[1, 2, 3])))
    make_plan(trials, Store(root=tmp_path / "store"))
    for trial in trials:
        alone = Trial(cell=trial.cell, seed=trial.seed)
        assert [(s.name, s.fingerprint) for s in alone.stages] == [(s.name, s.fingerprint) for s in trial.stages]
    assert len({trial.id for trial in trials}) == 12


def test_a_setting_that_only_one_seed_of_one_cell_has_wrong_is_found(tmp_path, capsys):
    """The check that is left out for further seeds is left out for no other cell."""
    grid = {"recipe.defense": [{"alpha": 0.0}, {"kind": "dp_sgd", "noise": 1.0}], "recipe.batch_size": [16, 33]}
    path = write_tiny(tmp_path, grid=grid, baseline={}, seeds=[1, 2])
    assert main(["plan", str(path), "--store", str(tmp_path / "store")]) == 2
    assert "a batch_size of at most the 32 images, got 33" in capsys.readouterr().err


ROOMS = ("core", "tasks", "sweeps", "orchestrator")


def version(tree):
    fingerprints.version_of_tree.cache_clear()
    try:
        return fingerprints.version_of_tree(tree)
    finally:
        fingerprints.version_of_tree.cache_clear()


@pytest.fixture
def tree(tmp_path):
    for room in ROOMS:
        (tmp_path / room / "inner").mkdir(parents=True)
        (tmp_path / room / "inner" / "a.py").write_text(f"# {room}\n")
    return tmp_path


def test_without_git_it_is_the_digest_that_workers_are_held_to(tree):
    assert version(tree) == f"source-{code_digest(tree)[:12]}"


def git(tree, *arguments):
    who = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false"]
    done = subprocess.run(["git", "-C", str(tree), *who, *arguments], capture_output=True, text=True, check=True)
    return done.stdout.strip()


@pytest.mark.skipif(shutil.which("git") is None, reason="there is no git here")
def test_of_a_commit_it_is_twelve_digits_and_a_plus_where_files_have_changed(tree):
    git(tree, "init", "-q")
    assert version(tree).startswith("source-")  # there is no commit to name
    git(tree, "add", "-A")
    git(tree, "commit", "-q", "-m", "All of it")
    commit = version(tree)
    assert re.fullmatch("[0-9a-f]{12}", commit) and git(tree, "rev-parse", "HEAD").startswith(commit)
    (tree / "core" / "inner" / "a.py").write_text("# changed\n")
    assert version(tree) == f"{commit}+"


def test_whoever_packs_the_code_may_say_its_version(monkeypatch):
    monkeypatch.setenv(CODE_VERSION_VARIABLE, "1.2.3")
    assert code_version() == "1.2.3"
    monkeypatch.setenv(CODE_VERSION_VARIABLE, "")
    assert code_version() == fingerprints.version_of_tree(fingerprints.TREE)


OTHER = hashlib.sha256(b"other").hexdigest()


class Forgetful(dict):
    """What one process has read already, for tests that stand for many."""

    def __setitem__(self, key, value):
        pass


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """Where notes are left; every question is asked anew, and every file is large."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(planned_files, "REMEMBER_FROM_BYTES", 5)
    monkeypatch.setattr(planned_files, "_digests", Forgetful())
    monkeypatch.setattr(fingerprints, "_digest", fingerprints._digest.__wrapped__)
    return tmp_path / "cache" / "smoothsweep" / "digests"


def digest_of(path, **options):
    return content_of(path, "data.path", **options)["content"]


def test_the_digest_of_a_large_file_is_kept_and_believed(tmp_path, cache):
    file = tmp_path / "a.bin"
    file.write_bytes(b"large")
    assert digest_of(file) == content_digest(file)
    [note] = cache.iterdir()
    assert note.read_text() == content_digest(file) and note.name.startswith("content_digest-")
    note.write_text(OTHER)
    assert digest_of(file) == OTHER
    file.write_bytes(b"larger")
    assert digest_of(file) == content_digest(file) != OTHER


@pytest.mark.parametrize("damaged", ["", OTHER[:-1], OTHER + "0", OTHER.upper(), OTHER[:-1] + "g", b"\xff" * 64])
def test_a_damaged_note_is_not_believed_and_written_anew(tmp_path, cache, damaged):
    file = tmp_path / "a.bin"
    file.write_bytes(b"large")
    expected = digest_of(file)
    [note] = cache.iterdir()
    note.write_bytes(damaged if isinstance(damaged, bytes) else damaged.encode())
    assert digest_of(file) == expected and note.read_text() == expected


def test_a_folder_of_any_files_has_another_digest_than_one_of_pictures(tmp_path, cache, monkeypatch):
    monkeypatch.setattr(planned_files, "REMEMBER_FROM_BYTES", 0)
    folder = tmp_path / "set"
    folder.mkdir()
    (folder / "list.txt").write_text("a 1")
    assert digest_of(folder, any_files=True) == tree_digest(folder)
    with pytest.raises(InputError):
        digest_of(folder)  # pictures alone
    assert [note.name.split("-")[0] for note in cache.iterdir()] == ["tree_digest"]


def test_no_file_has_no_content_and_one_that_is_not_there_is_named(tmp_path):
    assert content_of(None, "data.path") == {}
    with pytest.raises(InputError, match=r"^data\.path: expected a file or folder, got nothing at .*/nowhere$"):
        content_of(tmp_path / "nowhere", "data.path")


def test_settings_count_without_nulls_and_without_what_is_left_out():
    settings = PRIOR_MODELS["eigenfaces"](kind="eigenfaces", components=3)
    assert normalised(settings) == {"kind": "eigenfaces", "components": 3, "seed": 0}
    assert normalised(settings, without={"seed"}) == {"kind": "eigenfaces", "components": 3}
    assert "weights" not in normalised(judge_model(Embedder)(name="synthetic"))  # null


def test_pictures_that_are_not_there_have_a_content_for_a_plan_alone(tmp_path):
    place = tmp_path / "faces"
    with fingerprints.files_may_be_absent() as absent:
        assert content_of(place, "data.path") == {"content": f"nothing at {place}"}
        with pytest.raises(InputError, match=r"^judges\.embedder\.weights: expected a file or folder"):
            content_of(place, "judges.embedder.weights")
    assert absent == {"data.path": str(place)}
    with pytest.raises(InputError, match=r"^data\.path: expected a file or folder"):
        content_of(place, "data.path")


def load(tmp_path, private, public):
    data, other = {"kind": "labelled", "path": str(private)}, {"kind": "unlabelled", "path": str(public)}
    return trials_of(load_sweep(write_tiny(tmp_path, data=data, public=other, judges={})))[0].stages


@pytest.mark.parametrize("way", ["the same", "a link", "a hard link", "a copy", "by way of .."])
def test_the_private_file_under_any_name_is_refused(tmp_path, way):
    private, public = people(tmp_path / "faces.parquet"), tmp_path / "other.parquet"
    if way == "a link":
        public.symlink_to(private)
    elif way == "a hard link":
        public.hardlink_to(private)
    elif way == "a copy":
        shutil.copy(private, public)
    else:
        public = private if way == "the same" else tmp_path / "x" / ".." / "faces.parquet"
        (tmp_path / "x").mkdir(exist_ok=True)
    with pytest.raises(InputError, match=r"public\.path: expected images of other people than data\.path"):
        load(tmp_path, private, public)


def test_a_folder_inside_the_other_is_refused(tmp_path):
    private = regular_folders(tmp_path / "faces")
    with pytest.raises(InputError, match="expected images of other people"):
        load(tmp_path, private, private / "ann")


def test_other_files_are_taken(tmp_path):
    assert load(tmp_path, people(tmp_path / "faces.parquet"), people(tmp_path / "other.parquet", per_class=5))
