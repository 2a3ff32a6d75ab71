"""Which stages a sweep is made of, and what names their artifacts."""

import hashlib
import json
import shutil

import pytest
import torch
from safetensors.torch import load_file, save_file

from smoothsweep.core.attacks.registry import ATTACKS, make_attack
from smoothsweep.core.data.sources import content_digest
from smoothsweep.core.errors import InputError
from smoothsweep.core.judges.table import measured
from smoothsweep.core.same_code import code_digest
from smoothsweep.orchestrator.planning.trial import inversion_stages, trials_of
from smoothsweep.orchestrator.scheduling.execute import execute_with_inputs
from smoothsweep.orchestrator.stages import graph
from smoothsweep.orchestrator.stages import stage as fingerprints
from smoothsweep.orchestrator.stages.stage import CODE_VERSION_VARIABLE, code_version, content_of, with_ancestors
from smoothsweep.orchestrator.store.opening import open_store
from smoothsweep.sweeps.load import load_sweep
from smoothsweep.sweeps.schema import InversionSweep, Resources
from smoothsweep.tasks import planned_files
from smoothsweep.tasks.registry import TASKS
from tests.core.attacks.examples import needed, prior_of
from tests.every_stage import every_stage, imported_folder
from tests.labelled_files import people, regular_folders
from tests.planned_cases import NETWORK
from tests.tiny import tiny_sweep, write_tiny

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


def stages_of(**changes):
    settings = InversionSweep.model_validate(tiny_sweep(**{"grid": {}, "baseline": {}, **changes}))
    return with_ancestors(list(inversion_stages(settings, 1)))


def sweeps(folder):
    """Name -> changes of the tiny sweep; together they have every kind of stage, and every file that one may read."""
    files = {
        name: folder / name
        for name in ("faces.parquet", "others.parquet", "embedder.bin", "general.bin", "fid.safetensors")
    }
    for path in files.values():
        path.write_text(path.name)
    (folder / "celeba").mkdir()
    (folder / "celeba" / "list.txt").write_text("as it was")
    (folder / "prior").mkdir()
    (folder / "prior" / "prior.json").write_text(json.dumps({"version": 1, "kind": "stylegan2", "config": NETWORK}))
    for name in ("weights", "discriminator"):
        save_file({"a": torch.zeros(2)}, folder / "prior" / f"{name}.safetensors")
    brought = {
        name: imported_folder(folder / name, {"a": torch.zeros(2)}, architecture=architecture, num_classes=4)
        for name, architecture in (("target", "resnet_small"), ("evaluator", "vgg_small"))
    }
    prior = {"prior": {"kind": "folder", "path": str(folder / "prior")}, "public": None}
    tiny = tiny_sweep()
    many = {**tiny["public"], "identities": 64}
    return {
        "tiny": {},
        "paper": {"protocol": "paper"},
        "reconstruction_size": {"attack": {**tiny["attack"], "reconstruction_size": 20, "precision": "bf16"}},
        "rows": {"resources": {"attack_rows": 3, "attack_compile": True}},
        "labelled": {
            "data": {"kind": "labelled", "path": str(files["faces.parquet"])},
            "public": {"kind": "unlabelled", "path": str(files["others.parquet"])},
        },
        "published": {"data": {"kind": "celeba", "path": str(folder / "celeba"), "samples_per_class": 2}},
        "imported": {
            "recipe": {"imported": brought["target"]},
            "judges": {**tiny["judges"], "evaluator": {"imported": brought["evaluator"]}},
        },
        "folder": {**prior, "attack": {**tiny["attack"], "discriminator_weight": 0.1}},
        "judges": {
            "judges": {
                "embedder": {"name": "facenet", "weights": str(files["embedder.bin"]), "verify": None},
                "general": {"weights": str(files["general.bin"]), "verify": None},
                "fidelity": {"weights": str(files["fid.safetensors"]), "neighbours": 1},
            }
        },
        "defended": {
            "recipe": {**tiny["recipe"], "defense": {"kind": "mid", "beta": 0.01}},
            "attack": {**tiny["attack"], "readout": "mean"},
        },
        "judged": {"judges": {name: dict(judge.example) for name, judge in measured().items()}},
        "measured": {
            "attack": None,
            "prior": None,
            "public": None,
            "recipe": {**tiny["recipe"], "poison": {"kind": "badnets"}},
            "judges": {"features": {"perplexity": 5.0}, "robustness": {}},
        },
        "members": {"attack": None, "prior": None, "public": None, "judges": {"membership": {"shadows": 4}}},
        "tempered": {"attack": {**tiny["attack"], "loss": "cross_entropy", "temperature": {"mean_confidence": 0.5}}},
        **{
            kind: {
                "attack": {"kind": kind, "selected": 2, **needed(kind)},
                "public": many,
                **({"prior": prior_of(kind)} if prior_of(kind) else {}),
            }
            for kind in ATTACKS
        },
    }


ELSEWHERE = {"toy", "sleep", "pool_features", "judge_gradients", "judge_fid_lomma", "judge_fid_plg"}
"""Kinds of stage that no sweep of this file has: they are made in tests of their own."""


@pytest.fixture(scope="module")
def stages(tmp_path_factory):
    """Every stage of all of them."""
    made = sweeps(tmp_path_factory.mktemp("files"))
    found = [stage for changes in made.values() for stage in stages_of(**changes)]
    assert {stage.name for stage in found} >= set(TASKS) - ELSEWHERE
    return found


READ = {
    "faces.parquet": ("labelled", "data", "data.path"),
    "others.parquet": ("labelled", "public", "public.path"),
    "celeba/list.txt": ("published", "data", None),
    "target/weights.safetensors": ("imported", "imported", "imported"),
    "evaluator/weights.safetensors": ("imported", "imported", "imported"),
    "prior/weights.safetensors": ("folder", "prior", "prior.path"),
    "prior/discriminator.safetensors": ("folder", "prior", "attack.discriminator_weight"),
    "embedder.bin": ("judges", "judge_embedder", "judges.embedder.weights"),
    "general.bin": ("judges", "judge_general", "judges.general.weights"),
    "fid.safetensors": ("judges", "judge_fidelity", "judges.fidelity.weights"),
}
"""File that a sweep names -> which of `sweeps`, a stage that reads it, the key under which its absence is told."""


def of_kind(found, kind):
    return {stage.fingerprint for stage in found if stage.name == kind}


@pytest.fixture
def fresh():
    """Digests and staged files are looked for anew."""
    for known in (fingerprints._digest, graph.staged_file):
        known.cache_clear()
    yield fingerprints._digest.cache_clear
    for known in (fingerprints._digest, graph.staged_file):
        known.cache_clear()


@pytest.mark.parametrize("file", READ)
def test_a_file_counts_by_its_content_and_wherever_it_lies(file, tmp_path, fresh):
    sweep, kind, key = READ[file]
    changes = []
    for folder in (tmp_path / "here", tmp_path / "there"):
        folder.mkdir()
        changes.append(sweeps(folder)[sweep])
    here, there = (stages_of(**one) for one in changes)
    assert [stage.fingerprint for stage in here] == [stage.fingerprint for stage in there]
    read = tmp_path / "there" / file
    assert any(read.is_relative_to(stage.hints["path"]) for stage in there if stage.name == kind)
    read.write_text("something else, and longer")
    fresh()
    assert of_kind(stages_of(**changes[1]), kind) != of_kind(here, kind)
    read.unlink()
    fresh()
    if key is not None:  # else what has gone is a part of a folder
        with pytest.raises(InputError, match=rf"^{key}: expected a file or folder, got nothing at "):
            stages_of(**changes[1])


@pytest.mark.parametrize("kind", sorted(ATTACKS))
def test_protocol_paper_alone_brings_images_to_a_judges_size_as_the_attacks_own_code_does(kind):
    attack = {"kind": kind, "selected": 2, **needed(kind)}
    changes = {
        "attack": attack,
        "public": {**tiny_sweep()["public"], "identities": 64},
        **({"prior": prior_of(kind)} if prior_of(kind) else {}),
    }
    for protocol in ("paper", "clean"):
        (reconstructions,) = [stage for stage in stages_of(protocol=protocol, **changes) if stage.name == "loot"]
        expected = make_attack(kind, **needed(kind)).enlarging if protocol == "paper" else None
        assert reconstructions.config.get("enlarging") == expected and ("enlarging" in reconstructions.config) == (
            expected is not None
        )
