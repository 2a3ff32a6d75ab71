"""The stages of sweeps of every kind: no key that nobody reads, none missing that is read, files by their content."""

import json

import pytest
import torch
from safetensors.torch import save_file

from smoothsweep.core.attacks.registry import ATTACKS, make_attack
from smoothsweep.core.errors import InputError
from smoothsweep.core.judges.table import measured
from smoothsweep.orchestrator.planning.trial import inversion_stages
from smoothsweep.orchestrator.stages import graph
from smoothsweep.orchestrator.stages import stage as fingerprints
from smoothsweep.orchestrator.stages.stage import with_ancestors
from smoothsweep.sweeps.schema import InversionSweep
from smoothsweep.tasks.registry import TASKS
from tests.core.attacks.examples import needed, prior_of
from tests.every_stage import every_stage, imported_folder
from tests.planned_cases import NETWORK
from tests.tiny import tiny_sweep


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


def test_the_reconstructions_say_how_their_images_are_cut(stages):
    crops = {stage.inputs["attack"].config["kind"]: stage.config["crop"] for stage in stages if stage.name == "loot"}
    assert set(crops) == set(ATTACKS) and all(crop is None or crop > 0 for crop in crops.values())


def test_images_that_an_attack_has_left_are_nobodys_latents(stages):
    read = {stage.inputs["attack"].config["kind"]: set(stage.inputs) for stage in stages if stage.name == "loot"}
    assert {kind for kind, names in read.items() if names == {"attack"}} == {
        kind for kind, attack in ATTACKS.items() if attack.leaves_images
    }
    assert all("attack" in names and len(names) <= 2 for names in read.values())


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


def test_an_accuracy_that_another_trial_reached_comes_as_an_input_and_is_no_setting(tmp_path):
    goals = {0.0: None, -0.2: {"trial": {"recipe.defense.alpha": 0.0}}}
    cells = [{"recipe.defense.alpha": alpha, "recipe.stop_at_test_acc": goal} for alpha, goal in goals.items()]
    targets = [stage for stage in every_stage(tmp_path, cells=cells) if stage.name == "target"]
    (stopped,) = [target for target in targets if "reference" in target.inputs]
    assert stopped.inputs["reference"].config["defense"]["alpha"] == 0.0
    assert not any("stop_at_test_acc" in target.config for target in targets)
    numbers = [
        stage.config.get("stop_at_test_acc")
        for stage in stages_of(recipe={**tiny_sweep()["recipe"], "stop_at_test_acc": 0.5})
        if stage.name == "target"
    ]
    assert sorted(numbers, key=str) == [0.5, None]  # the target's, and the evaluator's


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


@pytest.mark.parametrize("classes", ["all", [2, 0]])
def test_gradients_are_followed_for_the_attacked_classes(classes):
    judges = {**tiny_sweep()["judges"], "gradients": {}}
    (found,) = [stage for stage in stages_of(judges=judges, classes=classes) if stage.name == "judge_gradients"]
    assert found.config["classes"] == classes
