"""Projection finds the latents of images that a prior can draw, and the nearest image of others."""

import pytest
import torch

from smoothsweep.core.priors.base import PriorNetwork, nearest_latents, project
from smoothsweep.core.priors.eigenfaces import fit_eigenfaces
from smoothsweep.core.priors.kinds import make_settings
from smoothsweep.core.priors.registry import from_files


def silent(fraction, text):
    pass


@pytest.fixture(scope="module")
def eigenfaces():
    images = torch.randint(0, 256, (40, 3, 8, 8), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    return fit_eigenfaces(images, components=10, seed=0)


@pytest.fixture
def wanted():
    return torch.rand(5, 3, 8, 8, generator=torch.Generator().manual_seed(1)) * 2 - 1


def error(prior, w, wanted):
    return (prior.synthesize(w) - wanted).square().mean(dim=(1, 2, 3))


def test_of_eigenfaces_it_is_the_orthogonal_projection(eigenfaces, wanted):
    w = eigenfaces.project(wanted, crop=None, seed=0, on_progress=silent)
    left = (wanted - eigenfaces.synthesize(w)).flatten(1)
    assert (left @ eigenfaces.components.T).abs().max() < 1e-4  # nothing that is left lies in the prior
    by_least_squares = torch.linalg.lstsq(eigenfaces.components.T, (wanted - eigenfaces.mean).flatten(1).T).solution
    assert torch.allclose(w[:, 0] * eigenfaces.std, by_least_squares.T, atol=1e-4)


def test_a_descent_comes_near_the_closed_form(eigenfaces, wanted):
    best = error(eigenfaces, eigenfaces.encode(wanted), wanted)
    found = project(eigenfaces, wanted, crop=None, seed=0, on_progress=silent, steps=250)
    start = project(eigenfaces, wanted, crop=None, seed=0, on_progress=silent, steps=0)
    reached, begun = error(eigenfaces, found, wanted), error(eigenfaces, start, wanted)
    assert (reached < begun).all() and ((reached - best) < 0.4 * (begun - best)).all()


def test_a_crop_is_compared_by_its_centre_alone(eigenfaces):
    w = eigenfaces.map(torch.from_numpy(eigenfaces.sample_z(2, 5)))
    centre = eigenfaces.synthesize(w)[..., 2:6, 2:6]
    found = eigenfaces.project(centre, crop=4, seed=0, on_progress=silent)
    assert (eigenfaces.synthesize(found)[..., 2:6, 2:6] - centre).square().mean() < 0.1 * centre.var()


def test_a_generator_draws_its_own_images_again_better_than_any_draw():
    prior = from_files(make_settings("shipped", name="stylegan2_synthetic64"))
    assert type(prior).project is PriorNetwork.project
    w = prior.map(torch.from_numpy(prior.sample_z(1, 99)).float())[:, :1]
    with torch.no_grad():
        wanted = prior.synthesize(w)
    draws = prior.map(torch.from_numpy(prior.sample_z(12, 0)).float())[:, :1]
    start, found = (nearest_latents(prior.synthesize, wanted, draws, steps=steps, rate=0.2) for steps in (0, 12))
    assert found.shape == (1, 1, prior.w_dim)
    assert error(prior, found.detach(), wanted).item() < 0.7 * error(prior, start, wanted).item()
