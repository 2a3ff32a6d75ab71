import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from smoothsweep.core.errors import InputError
from smoothsweep.core.priors import eigenfaces
from smoothsweep.core.priors.base import Prior
from smoothsweep.core.priors.eigenfaces import fit_eigenfaces
from smoothsweep.core.priors.settings import EigenfacesConfig


def structured_images(count, side=8, seed=0):
    """Smooth random images: a few strong directions, then a tail of noise."""
    generator = torch.Generator().manual_seed(seed)
    factors = torch.randn(count, 12, generator=generator) * torch.linspace(40, 6, 12)
    directions = torch.randn(12, 3 * side * side, generator=generator) / 4
    noise = torch.randn(count, 3 * side * side, generator=generator) * 2
    flat = factors @ directions + noise + 120
    return flat.clamp(0, 255).to(torch.uint8).reshape(count, 3, side, side)


@pytest.fixture(scope="module", params=["exact", "sketched"])
def fitted(request):
    images = structured_images(300)
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "sketched":
            patch.setattr(eigenfaces, "EXACT_UP_TO", 0)
        yield images, fit_eigenfaces(images, components=10, seed=0)


def test_is_a_prior(fitted):
    _, prior = fitted
    assert isinstance(prior, Prior)
    assert (prior.z_dim, prior.num_ws, prior.w_dim, prior.resolution) == (10, 1, 10, 8)


def test_origin_is_the_training_mean(fitted):
    images, prior = fitted
    mean = (images.double() / 127.5 - 1).mean(dim=0)
    torch.testing.assert_close(prior.synthesize(torch.zeros(1, 1, 10))[0].double(), mean, atol=1e-6, rtol=0)


def test_components_are_orthonormal_with_a_fixed_sign(fitted):
    _, prior = fitted
    torch.testing.assert_close(prior.components @ prior.components.T, torch.eye(10), atol=1e-5, rtol=0)
    strongest = prior.components.gather(1, prior.components.abs().argmax(dim=1, keepdim=True))
    assert (strongest > 0).all()


def test_variances_are_those_of_the_covariance_matrix(fitted):
    images, prior = fitted
    flat = (images.double() / 127.5 - 1).flatten(1)
    expected = torch.linalg.eigvalsh(torch.cov(flat.T)).flip(0)[:10].sqrt()
    torch.testing.assert_close(prior.std.double(), expected, rtol=2e-2, atol=0)
    assert (prior.std.diff() <= 0).all()


def test_encoding_inverts_synthesis(fitted):
    _, prior = fitted
    w = torch.from_numpy(prior.sample_z(5, seed=1)).float()[:, None]
    torch.testing.assert_close(prior.encode(prior.synthesize(w)), w, atol=1e-3, rtol=0)


def test_fit_is_a_function_of_images_and_seed(monkeypatch):
    monkeypatch.setattr(eigenfaces, "EXACT_UP_TO", 0)
    images = structured_images(80)
    first, again, other = (fit_eigenfaces(images, components=4, seed=seed) for seed in (3, 3, 4))
    assert torch.equal(first.components, again.components)
    assert torch.equal(first.std, again.std)
    assert not torch.equal(first.components, other.components)


def test_constant_images_have_no_variance_and_still_synthesize():
    prior = fit_eigenfaces(torch.full((5, 3, 4, 4), 51, dtype=torch.uint8), components=2, seed=0)
    images = prior.synthesize(torch.ones(1, 1, 2))
    torch.testing.assert_close(images, torch.full_like(images, 51 / 127.5 - 1), atol=1e-6, rtol=0)


@settings(max_examples=25, deadline=None)
@given(psi=st.floats(-1, 2), cutoff=st.sampled_from([None, 0, 1, 5]), seed=st.integers(0, 2**31))
def test_truncation_scales_towards_the_mean(psi, cutoff, seed):
    prior = eigenfaces.Eigenfaces(EigenfacesConfig(resolution=2, components=3))
    z = prior.sample_z(4, seed)
    w = prior.map(torch.from_numpy(z), psi=psi, cutoff=cutoff)
    scale = 1.0 if cutoff == 0 else psi
    assert w.shape == (4, 1, 3) and w.dtype == torch.float32
    np.testing.assert_allclose(w[:, 0].numpy(), scale * z, rtol=1e-5, atol=1e-6)


def test_gradient_reaches_w(fitted):
    _, prior = fitted
    w = torch.zeros(2, 1, 10, requires_grad=True)
    prior.synthesize(w)[:, 0, 3, 4].sum().backward()
    pixel = prior.std * prior.components.reshape(10, 3, 8, 8)[:, 0, 3, 4]
    torch.testing.assert_close(w.grad, pixel.expand(2, 1, 10))


@pytest.mark.parametrize(
    ("images", "components", "message"),
    [
        (torch.zeros(4, 3, 8, 8), 2, "expected uint8"),
        (torch.zeros(4, 1, 8, 8, dtype=torch.uint8), 2, r"\[N, 3, R, R\]"),
        (torch.zeros(4, 3, 8, 8, dtype=torch.uint8), 4, "expected 1 to 3 for 4 images, got 4"),
        (torch.zeros(4, 3, 8, 8, dtype=torch.uint8), 0, "got 0"),
        (torch.zeros(0, 3, 8, 8, dtype=torch.uint8), 1, "0 images"),
    ],
)
def test_refuses_what_it_cannot_fit(images, components, message):
    with pytest.raises(InputError, match=message):
        fit_eigenfaces(images, components=components, seed=0)


def test_refuses_w_of_another_prior(fitted):
    _, prior = fitted
    with pytest.raises(ValueError, match=r"expected \[n, 1 or 1, 10\], got \[2, 1, 9\]"):
        prior.synthesize(torch.zeros(2, 1, 9))
    with pytest.raises(ValueError, match="cutoff"):
        prior.map(torch.zeros(1, 10), psi=0.5, cutoff=-1)
