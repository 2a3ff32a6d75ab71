"""Priors as stages make, fit, read and check them; GANs that users bring."""

import dataclasses
import json
import re
import shutil

import pytest
import torch
from pydantic import TypeAdapter, ValidationError
from safetensors.torch import save_file

from smoothsweep.core.attacks.registry import load_network
from smoothsweep.core.data.synthetic import synthetic_faces
from smoothsweep.core.errors import InputError
from smoothsweep.core.priors.eigenfaces import Eigenfaces
from smoothsweep.core.priors.kinds import NETWORKS, PRIORS, make_settings, network_card
from smoothsweep.core.priors.registry import card_of, load_discriminator, load_prior, save_discriminator, save_prior
from smoothsweep.core.priors.settings import EigenfacesConfig, StyleGAN2Config
from smoothsweep.core.priors.stylegan2 import StyleGAN2, StyleGAN2Discriminator
from smoothsweep.orchestrator.cli import main
from smoothsweep.orchestrator.planning.trial import inversion_stages
from smoothsweep.orchestrator.scheduling.execute import execute_with_inputs
from smoothsweep.sweeps.parts import Prior
from smoothsweep.tasks.attack import make_part
from smoothsweep.tasks.context import TaskContext
from smoothsweep.tasks.data import fit_prior
from smoothsweep.tasks.files import load_tensors, save_tensors
from smoothsweep.tasks.planned_files import content_at
from smoothsweep.tasks.settings import check_judge, check_prior
from tests.core.priors.examples import example
from tests.official_gans import networks_of, official_files
from tests.tasks.test_lowres_attacks import sweep


@pytest.fixture
def public(tmp_path):
    folder = tmp_path / "public"
    folder.mkdir()
    faces = synthetic_faces(population="public", identities=24, per_identity=1, size=32, seed=0)
    save_tensors(folder / "images.safetensors", {"images": faces.images})
    return folder


def fit(tmp_path, config, **inputs):
    out, work = tmp_path / "out", tmp_path / "work"
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir()
    work.mkdir(exist_ok=True)
    metrics = fit_prior(config, inputs, out, TaskContext(work=work))
    return load_prior(out), metrics


def sample(prior):
    return prior.synthesize(prior.map(torch.from_numpy(prior.sample_z(2, 0)).float()))


def test_eigenfaces_are_fitted_and_come_back_from_a_folder(tmp_path, public):
    prior, metrics = fit(tmp_path, {"kind": "eigenfaces", "components": 6, "seed": 0}, public=public)
    assert metrics == {"resolution": 32, "z_dim": 6}
    shutil.copytree(tmp_path / "out", tmp_path / "mine")
    again, _ = fit(tmp_path, {"kind": "folder", "path": str(tmp_path / "mine")})
    assert torch.equal(sample(again), sample(prior))


def test_more_components_than_images_are_refused(tmp_path, public):
    with pytest.raises(InputError, match="expected fewer than the 24 public images, got 24"):
        fit(tmp_path, {"kind": "eigenfaces", "components": 24, "seed": 0}, public=public)


def test_a_discriminator_travels_with_its_folder_where_the_attack_asks_for_it(tmp_path):
    network = StyleGAN2Config(resolution=16, z_dim=8, w_dim=8, mapping_layers=1, channel_base=64, channel_max=8)
    source = tmp_path / "mine"
    save_prior(StyleGAN2(network, seed=1), source)
    save_discriminator(StyleGAN2Discriminator(network, seed=2), source)
    fit(tmp_path, {"kind": "folder", "path": str(source)})
    assert not (tmp_path / "out" / "discriminator.safetensors").exists()
    fit(tmp_path, {"kind": "folder", "path": str(source), "discriminator": "its content"})
    made, given = (load_discriminator(folder).state_dict() for folder in (tmp_path / "out", source))
    assert all(torch.equal(made[name], given[name]) for name in given)


def test_a_prior_without_finite_images_is_refused(tmp_path):
    prior = Eigenfaces(EigenfacesConfig(resolution=16, components=2))
    prior.mean.fill_(3e38)
    prior.components.fill_(3e38)
    prior.std.fill_(3e38)
    save_prior(prior, tmp_path / "mine")
    with pytest.raises(InputError, match="prior: expected finite images"):
        fit(tmp_path, {"kind": "folder", "path": str(tmp_path / "mine")})


EXAMPLES = {kind: example(kind).EXAMPLE for kind in PRIORS}
WRONG = [(kind, wrong) for kind in PRIORS for wrong in example(kind).WRONG]


@pytest.fixture(scope="module")
def faces():
    return synthetic_faces(population="public", identities=24, per_identity=1, size=16, seed=0).images


def settings_of(kind, folder, faces):
    values, write = {**EXAMPLES[kind]}, getattr(example(kind), "files", None)
    if write is not None:
        values["path"] = str(write(folder, faces))
    return make_settings(kind, **values)


def made(kind, folder, faces):
    """As its stage makes it, into a folder that says so."""
    public, out, work = (folder / name for name in ("public", "out", "work"))
    for place in (public, out, work):
        place.mkdir(parents=True)
    save_tensors(public / "images.safetensors", {"images": faces})
    inputs = {"public": public} if PRIORS[kind].needs_public else {}
    config = {"kind": kind, **dataclasses.asdict(settings_of(kind, folder, faces))}
    metrics = fit_prior(config, inputs, out, TaskContext(work=work))
    return load_prior(out), metrics


@pytest.mark.parametrize("kind", PRIORS)
def test_a_prior_draws_finite_images_and_the_same_ones_again(kind, tmp_path, faces):
    (first, metrics), (again, _) = (made(kind, tmp_path / name, faces) for name in "ab")
    assert metrics == {"resolution": first.resolution, "z_dim": first.z_dim}
    z = torch.from_numpy(first.sample_z(3, 1)).float()
    w = first.map(z)
    assert w.shape == (3, first.num_ws, first.w_dim)
    images = first.synthesize(w)
    assert images.shape == (3, 3, first.resolution, first.resolution) and images.isfinite().all()
    assert images.std(dim=0).max() > 0  # they differ
    assert torch.equal(images, again.synthesize(again.map(z)))
    assert not any(value.requires_grad for value in first.parameters())


@pytest.mark.parametrize("kind", PRIORS)
def test_planning_knows_the_network_before_it_is_made(kind, tmp_path, faces):
    """Its sizes decide what is refused, and its name is one that the kind, or a kind that writes folders, brings."""
    settings = settings_of(kind, tmp_path, faces)
    planned = network_card(settings, faces.shape[-1])
    assert planned.kind in NETWORKS and isinstance(planned.config, NETWORKS[planned.kind].config)
    if settings.files is None:
        prior, _ = made(kind, tmp_path, faces)
        assert planned.plain == card_of(prior).plain


@pytest.mark.parametrize("kind", PRIORS)
def test_only_a_prior_that_is_there_already_names_its_files(kind, tmp_path, faces):
    files = settings_of(kind, tmp_path, faces).files
    assert (files is None) == PRIORS[kind].needs_public
    assert files is None or (files.weights.is_file() and files.description.is_file())


@pytest.mark.parametrize(("kind", "wrong"), WRONG)
def test_a_sweep_file_with_a_wrong_value_is_refused(kind, wrong):
    given = {"kind": kind, **(EXAMPLES[kind] if wrong else {}), **wrong}
    with pytest.raises(ValidationError):
        TypeAdapter(Prior).validate_python(given)
    with pytest.raises(InputError, match=rf"^prior( {kind}: |\.{next(iter(wrong), '')}: expected )"):
        make_settings(kind, **({**EXAMPLES[kind], **wrong} if wrong else {}))


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


SAID = {
    "empty": "expected tensors, got none",
    "nonsense": "expected a safetensors file, got: ",
    "absent": "expected a safetensors file, got: ",
}


def write(path, what):
    if what == "nonsense":
        path.write_bytes(b"nonsense")
    elif what != "absent":
        save_file({"a": torch.zeros(2)} if what == "whole" else {}, path)


@pytest.mark.parametrize("discriminator", ["unread", "whole", "empty", "nonsense", "absent"])
@pytest.mark.parametrize("weights", ["whole", "empty", "nonsense", "absent"])
def test_a_priors_files_are_opened_where_they_will_be_read(tmp_path, weights, discriminator):
    write(tmp_path / "weights.safetensors", weights)
    write(tmp_path / "discriminator.safetensors", discriminator.replace("unread", "nonsense"))
    config = {"kind": "folder", "path": str(tmp_path)}
    config |= {"discriminator": "its digest"} if discriminator != "unread" else {}
    wrong = [(name, what) for name, what in (("weights", weights), ("discriminator", discriminator)) if what in SAID]
    if not wrong:
        return check_prior(config, {})
    name, what = wrong[0]
    with pytest.raises(InputError, match=re.escape(f"{tmp_path / name}.safetensors: {SAID[what]}")) as refusal:
        check_prior(config, {})
    assert "\n" not in str(refusal.value)
    return None


@pytest.mark.parametrize("network", ["fid_inception", "fid_lomma", "facenet"])
def test_a_judges_file_is_opened_where_it_names_one(tmp_path, network):
    check_judge({"network": "synthetic"}, {})  # comes with its own
    write(tmp_path / "a.pth", "nonsense")
    config = {"network": network, "path": str(tmp_path / "a.pth"), "content": content_at(tmp_path / "a.pth")}
    with pytest.raises(InputError, match=re.escape("a.pth")) as refusal:
        check_judge(config, {})
    assert "planned" not in str(refusal.value) and "\n" not in str(refusal.value)
