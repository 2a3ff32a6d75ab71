"""The prior stage: every kind ends as the same two files, whatever made it."""

import shutil

import pytest
import torch
from sklearn.decomposition import PCA

from smoothsweep.core.data.synthetic import synthetic_faces
from smoothsweep.core.errors import InputError
from smoothsweep.core.priors.eigenfaces import Eigenfaces
from smoothsweep.core.priors.registry import load_discriminator, load_prior, save_discriminator, save_prior
from smoothsweep.core.priors.settings import EigenfacesConfig, StyleGAN2Config
from smoothsweep.core.priors.stylegan2 import StyleGAN2, StyleGAN2Discriminator
from smoothsweep.tasks.context import TaskContext
from smoothsweep.tasks.files import load_tensors, save_tensors
from smoothsweep.tasks.prior import fit_prior


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


def test_eigenfaces_are_the_principal_components_of_the_public_images(tmp_path, public):
    prior, _ = fit(tmp_path, {"kind": "eigenfaces", "components": 6, "seed": 0}, public=public)
    images = load_tensors(public / "images.safetensors")["images"].double().flatten(1).numpy() / 127.5 - 1
    pca = PCA(6, svd_solver="full").fit(images)
    torch.testing.assert_close(prior.mean.flatten().double(), torch.from_numpy(pca.mean_), rtol=0, atol=1e-5)
    torch.testing.assert_close(prior.std.double(), torch.from_numpy(pca.explained_variance_**0.5), rtol=1e-4, atol=1e-4)
    for mine, theirs in zip(prior.components.double(), torch.from_numpy(pca.components_), strict=True):
        strongest = theirs[theirs.abs().argmax()]
        torch.testing.assert_close(mine, theirs * strongest.sign(), rtol=0, atol=1e-4)


def test_eigenfaces_are_fitted_and_come_back_from_a_folder(tmp_path, public):
    prior, metrics = fit(tmp_path, {"kind": "eigenfaces", "components": 6, "seed": 0}, public=public)
    assert metrics == {"resolution": 32, "z_dim": 6}
    shutil.copytree(tmp_path / "out", tmp_path / "mine")
    again, _ = fit(tmp_path, {"kind": "folder", "path": str(tmp_path / "mine")})
    assert torch.equal(sample(again), sample(prior))


def test_more_components_than_images_are_refused(tmp_path, public):
    with pytest.raises(InputError, match="expected fewer than the 24 public images, got 24"):
        fit(tmp_path, {"kind": "eigenfaces", "components": 24, "seed": 0}, public=public)


def test_the_shipped_generator_is_the_file_that_comes_with_us(tmp_path, repository):
    prior, metrics = fit(tmp_path, {"kind": "shipped", "name": "stylegan2_synthetic64"})
    assert metrics == {"resolution": 64, "z_dim": prior.z_dim}
    shipped = load_tensors(repository / "core/priors/weights/stylegan2_synthetic64.safetensors")
    assert set(shipped) == set(prior.state_dict())
    assert all(torch.equal(value, shipped[name].float()) for name, value in prior.state_dict().items())


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
