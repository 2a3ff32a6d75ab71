"""PLG-MI as stages of a trial: parts are made once, its own generator decodes its latents, a killed GAN goes on."""

import json
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from smoothsweep.core.attacks.kept_networks import load_network
from smoothsweep.core.errors import InputError
from smoothsweep.orchestrator.planning.trial import inversion_stages
from smoothsweep.orchestrator.scheduling.execute import execute_with_inputs
from smoothsweep.sweeps.attacks import schema_of
from smoothsweep.tasks.attack import make_part
from smoothsweep.tasks.context import TaskContext
from smoothsweep.tasks.files import load_tensors
from smoothsweep.tasks.reconstructions import reconstructed_images
from tests.killed_parts import KILLED
from tests.tasks import test_lowres_attacks as lowres
from tests.tasks.travelling import made, outcome

GAN = {"steps": 6, "critic_steps": 2, "batch_size": 4, "width": 2, "z_dim": 4}
ATTACK = {"kind": "plg_mi", "top_n": 4, "gan": GAN, "steps": 3, "selected": 3, "seed": 9}


def sweep(protocol="clean", **changes):
    return lowres.sweep(**{"attack": ATTACK, "protocol": protocol, **changes})


@pytest.mark.parametrize("protocol", ["clean", "paper"])
def test_a_trial_has_its_own_generator_and_no_prior(protocol, request):
    pipeline = request.getfixturevalue(protocol)
    stages = inversion_stages(sweep(protocol), 1)
    assert stages.target.fingerprint == pipeline.stage("target").fingerprint  # another attack, the same target
    assert set(stages.attack.inputs) == {"target", "plg_gan"}
    assert stages.reconstructions.inputs == {"plg_gan": stages.attack.inputs["plg_gan"], "attack": stages.attack}
    execute_with_inputs(pipeline.store, stages.reconstructions)
    gan, attack = (pipeline.store.path(stage) for stage in (stages.attack.inputs["plg_gan"], stages.attack))
    generator, found = load_network(gan, "generator"), load_tensors(attack / "reconstructions.safetensors")
    assert found["w"].shape == (9, 1, 5) and torch.equal(found["w"][:, 0, -1].long(), found["labels"])
    images, reconstructions = (
        generator.synthesize(found["w"]),
        reconstructed_images(pipeline.store.path(stages.reconstructions), 32),
    )
    expected = ((images.clamp(-1, 1) + 1) * 127.5).round() if protocol == "clean" else images
    assert (reconstructions["images"].float() - expected).abs().max() <= (1 if protocol == "clean" else 2e-3)
    asked = json.loads((attack / "manifest.json").read_text())["metrics"]["queries"]
    assert asked == 3 * (2 * 3 + 1)  # restarts x (steps in two views, and a last look)
    assert json.loads((gan / "manifest.json").read_text())["metrics"]["queries"] == 6 * 4


def test_trials_of_the_same_target_share_the_gan_whatever_is_searched():
    one, other = (inversion_stages(sweep(attack={**ATTACK, **change}), 1) for change in ({}, {"steps": 4, "lr": 0.2}))
    assert one.attack.inputs["plg_gan"].fingerprint == other.attack.inputs["plg_gan"].fingerprint
    assert one.attack.fingerprint != other.attack.fingerprint
    fewer = inversion_stages(sweep(attack={**ATTACK, "top_n": 3}), 1)
    assert fewer.attack.inputs["plg_gan"].fingerprint != one.attack.inputs["plg_gan"].fingerprint


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"attack": {**ATTACK, "top_n": 31}}, r"attack.top_n: expected at most the 30 public images, got 31"),
        ({"public": None, "prior": {"kind": "shipped"}}, "public: expected the images that this attack learns from"),
    ],
)
def test_a_sweep_that_cannot_be_attacked_is_refused_when_it_is_read(changes, message):
    with pytest.raises(InputError, match=message) as refusal:
        sweep(**changes)
    assert "\n" not in str(refusal.value)


@pytest.fixture(scope="module")
def ready(clean, tmp_path_factory):
    """(configuration, inputs) of the GAN's stage over the shared trial's target, and its pseudo-labels."""
    folder = tmp_path_factory.mktemp("labels")
    common = {"image_size": 32, "protocol": "clean"}
    inputs = {"public": clean.folder("attack.prior.public"), "target": clean.folder("target")}
    made("plg_labels", {"part": "plg_labels", "settings": {"top_n": 4}, **common}, inputs, folder)
    settings = {**GAN, "lr": 2e-4, "betas": [0.0, 0.9], "inversion_weight": 0.2, "loss": "max_margin", "seed": 46}
    return {"part": "plg_gan", "settings": settings, **common}, {**inputs, "plg_labels": folder}


@pytest.fixture(scope="module")
def short(ready, tmp_path_factory):
    """(configuration, folder, digest) of a GAN of two steps: the first of Adam looks the same whatever its averages."""
    config, inputs = ready
    config = {**config, "settings": {**config["settings"], "steps": 2}}
    folder = tmp_path_factory.mktemp("gan")
    return config, folder, outcome("plg_gan", config, inputs, folder)


@pytest.mark.slow  # a part of another attack is killed so in test_lowres_attacks
def test_a_gan_killed_between_two_steps_ends_as_one_that_was_not(ready, tmp_path):
    config, inputs = ready
    for name in ("whole", "killed"):
        for part in ("work", "out"):
            (tmp_path / name / part).mkdir(parents=True)
    places = {name: str(path) for name, path in inputs.items()}
    given = json.dumps([config, places, str(tmp_path / "killed"), torch.get_num_threads()])
    done = subprocess.run([sys.executable, "-c", KILLED, given], cwd=Path(__file__).parents[2], capture_output=True)
    assert done.returncode == -signal.SIGKILL, done.stderr.decode()
    metrics = {
        name: make_part(config, inputs, tmp_path / name / "out", TaskContext(work=tmp_path / name / "work"))
        for name in ("killed", "whole")
    }
    assert metrics["killed"] == metrics["whole"] and metrics["whole"]["queries"] == 6 * 4
    for file in ("generator.network.safetensors", "losses.safetensors"):
        killed, whole = (load_file(tmp_path / name / "out" / file) for name in ("killed", "whole"))
        assert killed.keys() == whole.keys() and all(torch.equal(killed[key], whole[key]) for key in whole)


def test_a_damaged_state_is_thrown_away_and_the_gan_made_anew(ready, tmp_path, capsys):
    config, inputs = ready
    (tmp_path / "work").mkdir()
    (tmp_path / "out").mkdir()
    (tmp_path / "work" / "checkpoint.pt").write_bytes(b"sha256 nothing of the kind")
    make_part(config, inputs, tmp_path / "out", TaskContext(work=tmp_path / "work"))
    assert "unfinished work is damaged" in capsys.readouterr().err
    assert len(load_file(tmp_path / "out" / "losses.safetensors")["losses"]) == 6


GAN_SETTINGS = {
    "steps": 3,
    "critic_steps": 1,
    "batch_size": 3,
    "lr": 0.01,
    "betas": [0.5, 0.9],
    "inversion_weight": 1.0,
    "loss": "cross_entropy",
    "z_dim": 5,
    "width": 3,
    "seed": 47,
}


@pytest.mark.parametrize("key", GAN_SETTINGS)
def test_every_setting_of_the_gan_reaches_it(key, ready, short, tmp_path):
    base, _, before = short
    changed = {**base, "settings": {**base["settings"], key: GAN_SETTINGS[key]}}
    after = outcome("plg_gan", changed, ready[1], tmp_path / "made")
    assert not before.startswith("refused") and not after.startswith("refused") and before != after


def test_every_setting_of_the_gan_is_in_that_table(ready):
    assert set(GAN_SETTINGS) == set(ready[0]["settings"])


SEARCH_SETTINGS = {
    "steps": 3,
    "lr": 0.2,
    "loss": "cross_entropy",
    "selected": 2,
    "seed": [9, 2],
    "protocol": "paper",
    "classes": [0],
}


@pytest.mark.parametrize("key", SEARCH_SETTINGS)
def test_every_setting_of_the_search_reaches_it(key, searched, tmp_path):
    base, given, before = searched
    after = outcome("attack", {**base, key: SEARCH_SETTINGS[key]}, given, tmp_path / "made")
    assert not before.startswith("refused") and not after.startswith("refused") and before != after


@pytest.fixture(scope="module")
def searched(ready, short, tmp_path_factory):
    """(configuration, inputs, digest) of a search."""
    base = {
        "kind": "plg_mi",
        "top_n": 4,
        "gan": short[0]["settings"],
        "steps": 2,
        "lr": 0.1,
        "loss": "max_margin",
        "selected": 3,
        "seed": [9, 1],
        "classes": [1],
        "image_size": 32,
        "protocol": "clean",
    }
    given = {"target": ready[1]["target"], "plg_gan": short[1]}
    return base, given, outcome("attack", base, given, tmp_path_factory.mktemp("searched"))


def test_a_gan_of_other_people_is_refused(ready, short, tmp_path):
    shutil.copytree(short[1], tmp_path / "gan")
    names = json.loads((tmp_path / "gan" / "names.json").read_text())
    (tmp_path / "gan" / "names.json").write_text(json.dumps([*names[:-1], "somebody else"]))
    base = {
        "kind": "plg_mi",
        "steps": 1,
        "selected": 1,
        "seed": [9, 1],
        "classes": [1],
        "image_size": 32,
        "protocol": "clean",
    }
    given = {"target": ready[1]["target"], "plg_gan": tmp_path / "gan"}
    assert outcome("attack", base, given, tmp_path / "made").startswith("refused: plg_gan: expected the class")


def test_every_key_of_the_attack_is_in_a_table():
    of_parts, of_the_reconstructions = {"top_n", "gan"}, {"reconstruction_size"}
    of_every_attack = {"kind", "readout", "precision"}  # tests/tasks/test_settings_travel.py
    assert set(schema_of("plg_mi").model_fields) == {
        *of_parts,
        *of_the_reconstructions,
        *of_every_attack,
        *SEARCH_SETTINGS.keys() - {"protocol", "classes"},
    }
