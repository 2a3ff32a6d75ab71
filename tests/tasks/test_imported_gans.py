"""A GAN of others in the place of an attack's own: brought in by its door, then a part like any other."""

import json
import shutil

import pytest
import torch

from smoothsweep.core.attacks.kept_networks import load_network
from smoothsweep.core.errors import InputError
from smoothsweep.orchestrator.cli import main
from smoothsweep.orchestrator.planning.trial import inversion_stages
from smoothsweep.orchestrator.scheduling.execute import execute_with_inputs
from smoothsweep.tasks.attack import make_part
from smoothsweep.tasks.context import TaskContext
from smoothsweep.tasks.files import load_tensors
from tests.official_gans import networks_of, official_files
from tests.tasks.test_lowres_attacks import sweep

pytestmark = pytest.mark.usefixtures("quick_programs")

PARTS = {"gmi": "general_gan", "ked": "specific_gan", "plg_mi": "plg_gan"}


def brought(part, files, out):
    """The exit code of bringing the files in."""
    more = ["--discriminator", str(files["discriminator"])] if "discriminator" in files else []
    return main(["import", "gan", str(files["generator"]), "--part", part, *more, "--out", str(out)])


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """Part -> the folder that the door wrote."""
    place = tmp_path_factory.mktemp("gans")
    made = {part: place / part for part in PARTS.values()}
    assert [brought(part, official_files(part, place), out) for part, out in made.items()] == [0] * len(made)
    return made


def stages_of(kind, folder, protocol="clean", gan=None, **attack):
    settings = {"kind": kind, "gan": {"imported": str(folder), **(gan or {})}, "steps": 2, "selected": 2, **attack}
    return inversion_stages(sweep(settings, protocol), 1)


@pytest.mark.parametrize("kind", list(PARTS))
def test_it_decodes_what_the_attack_finds(kind, folders, paper):
    part, stages = PARTS[kind], stages_of(kind, folders[PARTS[kind]], "paper")
    assert "public" not in stages.attack.inputs[part].inputs and "prior" not in stages.attack.inputs
    execute_with_inputs(paper.store, stages.reconstructions)
    folder = paper.store.path(stages.attack.inputs[part])
    for name, network in networks_of(part).items():
        own = network.state_dict()
        kept = load_network(folder, name).state_dict()
        assert all(torch.equal(own[key].float(), value.float()) for key, value in kept.items())
    found = load_tensors(paper.store.path(stages.attack) / "reconstructions.safetensors")
    assert found["w"].shape == (6, 1, 6 if kind == "plg_mi" else 5)  # of the generator, not of a training's default
    assert json.loads((folder / "manifest.json").read_text())["metrics"].get("queries") is None


def test_its_content_counts_and_not_where_it_lies(folders, tmp_path):
    copied = shutil.copytree(folders["general_gan"], tmp_path / "elsewhere")
    one, other = (stages_of("gmi", folder).attack for folder in (folders["general_gan"], copied))
    assert one.fingerprint == other.fingerprint
    files = official_files("general_gan", tmp_path, width=3)
    assert brought("general_gan", files, tmp_path / "wide") == 0
    assert stages_of("gmi", tmp_path / "wide").attack.fingerprint != one.fingerprint


@pytest.mark.parametrize(
    ("kind", "part", "changes", "message"),
    [
        ("gmi", "general_gan", {"gan": {"epochs": 3}}, "attack.gan: expected no other key beside imported"),
        ("plg_mi", "plg_gan", {"top_n": 4}, "attack.top_n: expected no value with an imported GAN"),
        ("ked", "general_gan", {}, "discriminator.network.json: kind: expected one of minibatch_discriminator"),
        ("plg_mi", "general_gan", {}, "generator.network.json: kind: expected one of conditional_generator"),
        ("lomma_gmi", "nowhere", {"form": "L_logit"}, "expected what `smoothsweep import gan` writes of a general_gan"),
    ],
)
def test_what_cannot_be_used_is_refused_when_the_sweep_is_read(kind, part, changes, message, folders, tmp_path):
    with pytest.raises(InputError, match=message) as refusal:
        stages_of(kind, folders.get(part, tmp_path / part), **changes)
    assert "\n" not in str(refusal.value)


def test_one_of_another_size_or_number_of_classes_is_refused(tmp_path, capsys):
    for name, changes in (("large", {"resolution": 64}), ("many", {"classes": 7})):
        (tmp_path / name).mkdir()
        files = official_files("specific_gan", tmp_path / name, **changes)
        assert brought("specific_gan", files, tmp_path / f"{name} gan") == 0
    with pytest.raises(InputError, match=r"large gan: generator: expected images of 32 pixels, got 64"):
        stages_of("ked", tmp_path / "large gan")
    with pytest.raises(InputError, match=r"many gan: discriminator: expected the target's 3 classes, got 7"):
        stages_of("ked", tmp_path / "many gan")
    assert brought("specific_gan", files, tmp_path / "many gan") == 2  # the folder exists
    assert "expected a new folder" in capsys.readouterr().err


def test_a_target_without_weights_of_ours_has_its_classes_counted_by_name(folders, tmp_path):
    """A program, or a head without a bias of its own: their artifacts hold no `head.bias`."""
    config = {"part": "plg_gan", "image_size": 32, "content": "", "path": str(folders["plg_gan"])}
    (tmp_path / "out").mkdir()
    (tmp_path / "names.json").write_text('["a", "b", "c"]')
    make_part(config, {"target": tmp_path}, tmp_path / "out", TaskContext(work=tmp_path))
    assert load_network(tmp_path / "out", "generator").config.classes == 3
    (tmp_path / "names.json").write_text('["a", "b"]')
    with pytest.raises(InputError, match=r"plg_gan: generator: expected the target's 2 classes, got 3"):
        make_part(config, {"target": tmp_path}, tmp_path / "out", TaskContext(work=tmp_path))
