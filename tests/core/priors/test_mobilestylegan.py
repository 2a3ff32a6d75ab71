from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.nn import functional

from smoothsweep.core.errors import InputError
from smoothsweep.core.priors import mobilestylegan
from smoothsweep.core.priors.mobilestylegan import InverseWavelet, MobileStyleGAN, StyledConvolution, sampling
from smoothsweep.core.priors.settings import Crop, MobileStyleGANConfig
from tests.tiny_random_face import random_generator, tiny_generator

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


@pytest.mark.parametrize(
    ("wrong", "expected"),
    [
        ({"channels": (8,)}, "channels: expected 2 to 10"),
        ({"channels": (8, 6)}, "multiples of 4"),
        ({"channels": "88"}, "channels: "),
        ({"frame": (0.5, 0.0, 0.6)}, "a square within the image"),
        ({"frame": (0.1, 0.1)}, "left, top and side"),
        ({"frame": (0.1, 0.1, 0.0)}, "a square within the image"),
        ({"frame": (-0.1, 0.1, 0.5)}, "frame: "),
        ({"size": 4}, "size: "),
        ({"head": 0}, "head: "),
        ({"w_dim": 2.5}, "w_dim: "),
    ],
)
def test_a_card_that_cannot_be_is_refused(wrong, expected):
    with pytest.raises(InputError, match=expected):
        replace(CONFIG, **wrong)


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
