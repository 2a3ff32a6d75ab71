"""The prior stage: every kind ends as the same two files, whatever made it."""

import shutil

import pytest
import torch

from core.data.synthetic import synthetic_faces
from core.errors import InputError
from core.priors.registry import load_prior
from tasks.context import TaskContext
from tasks.files import save_tensors
from tasks.prior import fit_prior

GAN = {
    "kind": "stylegan2", "z_dim": 8, "w_dim": 8, "mapping_layers": 2, "channel_base": 64, "channel_max": 8,
    "kimg": 0.064, "batch_size": 8, "lr": 0.002, "r1_gamma": 1.0, "augmentation": "light", "workers": 1, "seed": 0,
}  # fmt: skip


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


def test_a_generator_is_trained_and_goes_on_from_its_checkpoint(tmp_path, public):
    prior, _ = fit(tmp_path, GAN, public=public)
    assert sample(prior).shape == (2, 3, 32, 32) and sample(prior).isfinite().all()
    assert (tmp_path / "work" / "checkpoint.pt").is_file()
    again, _ = fit(tmp_path, GAN, public=public)  # nothing is left to do: the last checkpoint is the end
    assert torch.equal(sample(again), sample(prior))


def test_the_shipped_generator_decodes_faces(tmp_path):
    prior, metrics = fit(tmp_path, {"kind": "shipped", "name": "stylegan2_synthetic64"})
    assert metrics["resolution"] == 64
    assert sample(prior).abs().mean() < 1.5


@pytest.mark.slow
def test_two_workers_train_one_generator(tmp_path, public):
    import ray

    ray.init(address="local", num_cpus=2, include_dashboard=False, log_to_driver=False)
    try:
        prior, _ = fit(tmp_path, {**GAN, "workers": 2}, public=public)
    finally:
        ray.shutdown()
    assert sample(prior).isfinite().all()
