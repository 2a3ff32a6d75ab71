"""Priors in folders, eigenfaces, MobileStyleGAN, projections."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file
from torch.nn import functional

from smoothsweep.core.errors import InputError
from smoothsweep.core.priors import mobilestylegan, registry
from smoothsweep.core.priors.base import Prior, PriorNetwork, nearest_latents, project
from smoothsweep.core.priors.eigenfaces import EXACT_UP_TO, Eigenfaces, fit_eigenfaces
from smoothsweep.core.priors.kinds import NETWORKS, PRIORS, brings_network, make_settings
from smoothsweep.core.priors.mobilestylegan import InverseWavelet, MobileStyleGAN, StyledConvolution, sampling
from smoothsweep.core.priors.registry import from_files, load_prior, save_prior
from smoothsweep.core.priors.settings import SHIPPED, Crop, EigenfacesConfig, MobileStyleGANConfig
from tests.core.priors.examples import network_of
from tests.tiny_random_face import random_generator, tiny_generator


def eigenfaces_of_registry():
    return network_of("eigenfaces")


@pytest.fixture(params=NETWORKS)
def prior(request):
    return network_of(request.param)


KNOWN = ", ".join(sorted(NETWORKS))


def images_of(prior):
    with torch.no_grad():
        return prior.synthesize(prior.map(torch.from_numpy(prior.sample_z(3, 0)), psi=0.7))


def test_every_network_is_found_again_by_its_class():
    for name, kind in NETWORKS.items():
        if name == "held":  # whose class is its caller's
            continue
        network = network_of(name)
        assert type(network) is kind.load() and type(network.config) is kind.config
        assert registry.card_of(network).kind == name and name in PRIORS[brings_network(name)].networks


def test_round_trip(prior, tmp_path):
    save_prior(prior, tmp_path / "new" / "prior")
    loaded = load_prior(tmp_path / "new" / "prior")
    assert isinstance(loaded, Prior) and loaded.config == prior.config
    assert torch.equal(images_of(loaded), images_of(prior))
    assert not loaded.training and not any(weight.requires_grad for weight in loaded.parameters())
    assert sorted(path.name for path in (tmp_path / "new" / "prior").iterdir()) == ["prior.json", "weights.safetensors"]
    modes = {path.stat().st_mode for path in (tmp_path / "new" / "prior").iterdir()}
    assert len(modes) == 1


def test_the_slope_of_the_mapping_is_what_its_latents_show(prior):
    """Along a line of z a coordinate grows `slope` times as fast just below zero as just above it."""
    ends = torch.from_numpy(prior.sample_z(64, 0))
    for start, end in ends.split(2):
        w = prior.map(torch.lerp(start, end, torch.linspace(0, 1, 2001, dtype=ends.dtype)[:, None]))[:, 0].detach()
        rises = (w[:-1] < 0) & (w[1:] > 0)
        rises[:3] = rises[-3:] = False
        for place, coordinate in rises.nonzero().tolist():
            line = w[place - 2 : place + 4, coordinate].double()
            below, above = line[1] - line[0], line[5] - line[4]
            expected = 1.0 if prior.mapping_slope is None else prior.mapping_slope
            assert float(below / above) == pytest.approx(expected, rel=0.1)
            return
    pytest.fail("no coordinate crosses zero")


def test_half_precision_on_disk_becomes_single_precision(prior, tmp_path):
    files = {"weights": tmp_path / "a.safetensors", "description": tmp_path / "a.json"}
    registry.write_prior(prior, **files, dtype="float16")
    assert {value.dtype for value in load_file(files["weights"]).values()} == {torch.float16}
    loaded = registry.read_prior(**files)
    assert {value.dtype for value in loaded.state_dict().values()} == {torch.float32}
    torch.testing.assert_close(images_of(loaded), images_of(prior), atol=0.05, rtol=0.05)


def described(prior, tmp_path, change):
    save_prior(prior, tmp_path)
    path = tmp_path / "prior.json"
    description = json.loads(path.read_text())
    change(description)
    path.write_text(json.dumps(description))
    return tmp_path


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda d: d.update(kind="stylegan3"), f"kind: expected one of {KNOWN}, got 'stylegan3'"),
        (lambda d: d.pop("kind"), "keys version, kind and config"),
        (lambda d: d["config"].update(extra=1), "config: expected the keys components, resolution"),
        (lambda d: d["config"].update(components="4"), "components: expected a valid integer, got '4'"),
        (lambda d: d["config"].update(components=0), "components: expected a whole number of at least 1, got 0"),
        (lambda d: d["config"].update(components=5), r"components: expected shape \[5, 192\], got \[4, 192\]"),
    ],
)
def test_refuses_a_wrong_description(tmp_path, change, message):
    with pytest.raises(InputError, match=message):
        load_prior(described(eigenfaces_of_registry(), tmp_path, change))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda s: s.pop("std"), "1 tensors are missing, the first is std"),
        (lambda s: s.update(more=torch.zeros(1)), "1 unknown tensors, the first is more"),
        (lambda s: s["mean"].fill_(float("nan")), "mean: expected finite numbers"),
        (lambda s: s.update(std=torch.zeros(4, dtype=torch.int64)), "expected float32 or float16, got torch.int64"),
    ],
)
def test_refuses_wrong_weights(tmp_path, change, message):
    save_prior(eigenfaces_of_registry(), tmp_path)
    state = load_file(tmp_path / "weights.safetensors")
    change(state)
    save_file(state, tmp_path / "weights.safetensors")
    with pytest.raises(InputError, match=message):
        load_prior(tmp_path)


def test_refuses_missing_and_foreign_files(tmp_path):
    with pytest.raises(InputError, match=r"prior.json: expected the JSON description"):
        load_prior(tmp_path)
    save_prior(eigenfaces_of_registry(), tmp_path)
    (tmp_path / "weights.safetensors").write_bytes(b"not tensors")
    with pytest.raises(InputError, match="expected a safetensors file"):
        load_prior(tmp_path)
    (tmp_path / "weights.safetensors").unlink()
    with pytest.raises(InputError, match="expected a safetensors file"):
        load_prior(tmp_path)


def test_shipped_names():
    assert "stylegan2_synthetic64" in SHIPPED
    with pytest.raises(InputError, match="expected one of stylegan2_synthetic64, got 'ffhq'"):
        from_files(make_settings("shipped", name="ffhq"))


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
    images = structured_images(300) if request.param == "exact" else structured_images(EXACT_UP_TO + 1, side=19)
    return images, fit_eigenfaces(images, components=10, seed=0)


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


def test_a_sketch_is_a_function_of_images_and_seed():
    images = structured_images(EXACT_UP_TO + 1, side=19)
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
    prior = Eigenfaces(EigenfacesConfig(resolution=2, components=3))
    z = prior.sample_z(4, seed)
    w = prior.map(torch.from_numpy(z), psi=psi, cutoff=cutoff)
    scale = 1.0 if cutoff == 0 else psi
    assert w.shape == (4, 1, 3) and w.dtype == torch.float32
    np.testing.assert_allclose(w[:, 0].numpy(), scale * z, rtol=1e-5, atol=1e-6)


CONFIG = MobileStyleGANConfig(channels=(8, 8, 12, 8), z_dim=6, w_dim=6, mapping_layers=2)


def framed(network, frame, size=None):
    made = MobileStyleGAN(replace(network.config, frame=frame, size=size))
    made.load_state_dict(network.state_dict())
    return made.eval()


def latents(network, count):
    return network.map(torch.from_numpy(network.sample_z(count, 3)))


def plain_step(x, scale, depthwise, pointwise, bias, noise):
    """The same with torch's own functions, which differentiate themselves."""
    y = (x if scale is None else x * scale[:, None, None]).permute(0, 3, 1, 2)
    y = functional.conv2d(y, depthwise, padding=1, groups=len(depthwise)).permute(0, 2, 3, 1)
    return functional.leaky_relu(functional.linear(y, pointwise, bias) + noise, 0.2)


def plain_wavelet(x, scale):
    count = x.shape[-1] // 4
    bands = (x * scale[:, None, None]).permute(0, 3, 1, 2)
    haar = torch.tensor([[[1.0, 1], [1, 1]], [[1, 1], [-1, -1]], [[1, -1], [1, -1]], [[1, -1], [-1, 1]]])
    parts = [bands[:, band * count : (band + 1) * count] for band in range(4)]
    kernels = haar[:, None, None].to(x.dtype).expand(4, count, 1, 2, 2)
    made = sum(
        functional.conv_transpose2d(part, kernel, stride=2, groups=count)
        for part, kernel in zip(parts, kernels, strict=True)
    )
    return made.permute(0, 2, 3, 1)


@pytest.mark.parametrize("channels", [(8, 12, 8), (12, 8, 8, 4)])
def test_it_computes_what_the_graph_says(channels):
    network, z, w, image = tiny_generator(channels)
    assert network.resolution == image.shape[-1]
    np.testing.assert_allclose(network.map(torch.from_numpy(z))[:, 0], w, atol=1e-5)
    made = network.synthesize(torch.from_numpy(w)[:, None])
    np.testing.assert_allclose(made / np.abs(image).max(), image / np.abs(image).max(), atol=2e-6)


@pytest.mark.parametrize("scaled", [True, False])
def test_the_fused_steps_have_the_values_and_gradients_of_plain_ones(scaled):
    draws = torch.Generator().manual_seed(0)
    x, scale, depthwise, pointwise, bias, noise, weight = (
        torch.randn(shape, generator=draws, dtype=torch.float64)
        for shape in ((2, 4, 6, 8), (2, 8), (8, 1, 3, 3), (5, 8), (5,), (4, 6, 1), (2, 4, 6, 5))
    )
    cases = [
        (
            lambda f, x, s: f(x, s if scaled else None, depthwise, pointwise, bias, noise) * weight,
            StyledConvolution.apply,
            plain_step,
        ),
        (lambda f, x, s: f(x, s).tanh(), InverseWavelet.apply, plain_wavelet),
    ]
    for call, fused, plain in cases:
        found = []
        for function in (fused, plain):
            inputs = [x.clone().requires_grad_(), scale.clone().requires_grad_()]
            value = call(function, *inputs)
            value.sum().backward()
            found.append([value.detach(), *(one.grad for one in inputs if one.grad is not None)])
        assert len(found[0]) == len(found[1])
        for ours, theirs in zip(*found, strict=True):
            torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize("frame", [(0.0, 0.0, 1.0), (0.19, 0.277, 0.62), (0.5, 0.25, 0.5), (0.0, 0.4, 0.31)])
def test_a_frame_computes_less_and_changes_nothing(frame):
    network = random_generator(CONFIG)
    w = latents(network, 2)
    shown = framed(network, frame)
    rows, first, last = sampling(network.resolution, frame[1] * 64, frame[2] * 64, shown.resolution)
    columns, start, end = sampling(network.resolution, frame[0] * 64, frame[2] * 64, shown.resolution)
    expected = rows @ network.synthesize(w)[:, :, first:last, start:end] @ columns.T
    torch.testing.assert_close(shown.synthesize(w), expected, atol=1e-5, rtol=1e-5)
    if frame[2] < 0.5:
        computed, _ = shown._windows[-1]
        assert (computed.bottom - computed.top) * (computed.right - computed.left) < 32 * 32 / 2


def test_resampling_is_torchs_antialiased_resizing():
    picture = torch.randn(1, 1, 12, 12, generator=torch.Generator().manual_seed(0))
    for size in (5, 12, 20):
        weights, first, last = sampling(12, 0.0, 12.0, size)
        ours = weights @ picture[0, 0, first:last, first:last] @ weights.T
        theirs = functional.interpolate(picture, size=(size, size), mode="bilinear", antialias=True)
        torch.testing.assert_close(ours, theirs[0, 0], atol=1e-5, rtol=1e-5)


def test_images_do_not_depend_on_how_many_are_made_at_once(monkeypatch):
    together = random_generator(CONFIG)
    monkeypatch.setattr(mobilestylegan, "AT_ONCE", 1)
    singly = random_generator(CONFIG)
    w = latents(together, 3).requires_grad_()
    images = [network.synthesize(w) for network in (together, singly)]
    largest = images[0].abs().max()
    torch.testing.assert_close(*(image / largest for image in images), atol=2e-5, rtol=0)
    found = [image.square().mean() for image in images]
    gradients = [torch.autograd.grad(value, w, retain_graph=True)[0] for value in found]
    torch.testing.assert_close(*gradients, atol=1e-3 * float(gradients[0].abs().max()), rtol=0)


def test_the_mean_pulls_latents():
    network = tiny_generator()[0]
    z = torch.from_numpy(network.sample_z(2, 0))
    half = (network.map(z, psi=1.0) + network.mapping.mean) / 2
    torch.testing.assert_close(network.map(z, psi=0.5), half)
    mean = network.map(torch.from_numpy(network.sample_z(4096, 0))).mean(0)[0]
    torch.testing.assert_close(network.mapping.mean, mean, atol=1e-5, rtol=1e-5)


def test_the_frame_follows_from_the_eyes():
    frame = Crop(left_eye=(19, 20), right_eye=(45, 20), side=64).frame()
    assert [round(number * 1024) for number in frame] == [194, 284, 635]


@pytest.mark.parametrize(
    ("eyes", "expected"),
    [
        (((45, 20), (19, 20)), "left eye left of the right one"),
        (((19, 20), (45, 40)), "about level"),
        (((19, 20), (64, 20)), "eyes within 64 pixels"),
        (((28, 20), (36, 20)), "more around the face"),
    ],
)
def test_a_crop_that_cannot_be_is_refused(eyes, expected):
    with pytest.raises(InputError, match=f"^prior.crop: expected .*{expected}"):
        Crop(left_eye=eyes[0], right_eye=eyes[1], side=64)


def silent(fraction, text):
    pass


@pytest.fixture(scope="module")
def eigenfaces_of_projection():
    images = torch.randint(0, 256, (40, 3, 8, 8), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    return fit_eigenfaces(images, components=10, seed=0)


@pytest.fixture
def wanted():
    return torch.rand(5, 3, 8, 8, generator=torch.Generator().manual_seed(1)) * 2 - 1


def error(prior, w, wanted):
    return (prior.synthesize(w) - wanted).square().mean(dim=(1, 2, 3))


def test_of_eigenfaces_it_is_the_orthogonal_projection(eigenfaces_of_projection, wanted):
    w = eigenfaces_of_projection.project(wanted, crop=None, seed=0, on_progress=silent)
    left = (wanted - eigenfaces_of_projection.synthesize(w)).flatten(1)
    assert (left @ eigenfaces_of_projection.components.T).abs().max() < 1e-4  # nothing that is left lies in the prior
    by_least_squares = torch.linalg.lstsq(
        eigenfaces_of_projection.components.T, (wanted - eigenfaces_of_projection.mean).flatten(1).T
    ).solution
    assert torch.allclose(w[:, 0] * eigenfaces_of_projection.std, by_least_squares.T, atol=1e-4)


def test_a_descent_comes_near_the_closed_form(eigenfaces_of_projection, wanted):
    best = error(eigenfaces_of_projection, eigenfaces_of_projection.encode(wanted), wanted)
    found = project(eigenfaces_of_projection, wanted, crop=None, seed=0, on_progress=silent, steps=250)
    start = project(eigenfaces_of_projection, wanted, crop=None, seed=0, on_progress=silent, steps=0)
    reached, begun = error(eigenfaces_of_projection, found, wanted), error(eigenfaces_of_projection, start, wanted)
    assert (reached < begun).all() and ((reached - best) < 0.4 * (begun - best)).all()


def test_a_crop_is_compared_by_its_centre_alone(eigenfaces_of_projection):
    w = eigenfaces_of_projection.map(torch.from_numpy(eigenfaces_of_projection.sample_z(2, 5)))
    centre = eigenfaces_of_projection.synthesize(w)[..., 2:6, 2:6]
    found = eigenfaces_of_projection.project(centre, crop=4, seed=0, on_progress=silent)
    assert (eigenfaces_of_projection.synthesize(found)[..., 2:6, 2:6] - centre).square().mean() < 0.1 * centre.var()


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
