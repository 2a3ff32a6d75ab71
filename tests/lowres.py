"""The golden numbers of the low-resolution attacks: arrays, images and weights that follow from a formula."""

import hashlib
import json
import math
import zlib
from functools import cache
from pathlib import Path

import numpy as np
import torch

FOLDER = Path(__file__).parent / "golden"
MASK = (1 << 64) - 1


@cache
def _arrays():
    return np.load(FOLDER / "lowres.npz")


def golden(name):
    """A stored array as a tensor."""
    array = _arrays()[name]
    return torch.from_numpy(np.array(array)) if array.dtype.kind in "fiub" else array


def has_golden(name):
    """Whether an array of that name is stored."""
    return name in _arrays()


def _uniform(name, shape):
    count = math.prod(shape)
    with np.errstate(over="ignore"):
        start = np.uint64(((zlib.crc32(name.encode()) << 32) + 0x9E3779B97F4A7C15) & MASK)
        x = np.arange(count, dtype=np.uint64) + start
        for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
            x = (x ^ (x >> np.uint64(shift))) * np.uint64(factor)
    return (((x ^ (x >> np.uint64(31))) >> np.uint64(11)).astype(np.float64) / 2**53).reshape(shape)


def _single(values):
    return torch.from_numpy(np.ascontiguousarray(values, dtype=np.float32))


def u(name, shape):
    """Uniform in [0, 1)."""
    return _single(_uniform(name, shape))


def whole_bytes(name, shape):
    """Pixels: 256 times what is uniform, rounded down."""
    return np.floor(256 * _uniform(name, shape)).astype(np.uint8)


def s(name, shape):
    """Uniform in [-1, 1)."""
    return _single(2 * _uniform(name, shape) - 1)


def normal(name, shape):
    radius = np.sqrt(-2 * np.log(1 - _uniform(f"{name}/a", shape)))
    return _single(radius * np.cos(2 * np.pi * _uniform(f"{name}/b", shape)))


def blocky(name, count, side=64):
    """Images of 8 x 8 constant cells."""
    return u(name, (count, 3, 8, 8)).repeat_interleave(side // 8, 2).repeat_interleave(side // 8, 3)


@cache
def networks():
    """Name -> gain, special amplitudes, number of parameters, and the digest of names and shapes."""
    return json.loads((FOLDER / "lowres_networks.json").read_text())


def state_by_formula(name, shapes, like=None):
    """The weights of network `name`; shapes: official name -> shape; like: the network that gain and special are of."""
    entry, state = networks()[like or name], {}
    for key, shape in shapes.items():
        if key.endswith("num_batches_tracked"):
            continue
        state[key] = _single(_weight(f"{name}/{key}", key, tuple(shape), entry))
    return state


def _weight(where, key, shape, entry):
    signed = 2 * _uniform(where, shape) - 1
    if key in entry["special"]:
        return entry["special"][key] * signed
    if key.endswith("running_var"):
        return 1 + 0.5 * signed
    if key.endswith(("running_mean", "bias")):
        return 0.1 * signed
    if len(shape) == 1:
        return 1 + 0.2 * signed
    return entry["gain"] * math.sqrt(3 * shape[0] / math.prod(shape)) * signed


def digest_of(shapes):
    """As in `networks`, of official name -> shape."""
    return hashlib.sha256("".join(f"{key} {list(shapes[key])}\n" for key in sorted(shapes)).encode()).hexdigest()


def fill(network, name, *, like=None):
    """The network with the weights by formula under its own names; returned in training mode as it was."""
    shapes = {key: value.shape for key, value in network.state_dict().items()}
    network.load_state_dict(state_by_formula(name, shapes, like), strict=False)
    return network


def images64():
    """The four images that networks are shown, in [0, 1]."""
    return 0.5 * u("net_img64", (4, 3, 64, 64)) + 0.5 * blocky("net_blk64", 4)


def kept_pixels(images):
    """As images are stored: every fourth pixel, flattened."""
    return images[:, :, ::4, ::4].flatten(1)


def thinned(values, length):
    """As features and logits are stored: with the stride that gives the stored length."""
    return values[:, :: values.shape[1] // length]


def pooled(images):
    """The mean over the 8 x 8 blocks of an image, flattened: 192 numbers."""
    side = images.shape[-1] // 8
    return images.unflatten(3, (8, side)).unflatten(2, (8, side)).mean((3, 5)).flatten(1)


class Spied:
    """A search's objective whose latents, gradients and mean losses are kept, before every step."""

    def __init__(self, objective):
        self.objective, self.z, self.gradient, self.prior, self.identity = objective, [], [], [], []

    def __call__(self, leaf, step):
        found, ask = self.objective(leaf, step), self.objective
        with torch.no_grad():
            z = ask.latent(leaf, step)
            images = ask.decoder(z[:, None])
            self.z.append(z.clone())
            self.prior.append(-ask.realness((images + 1) / 2).mean())
            self.identity.append(ask.identity(images, ask.labels).mean())
        self.gradient.append(found.latent)
        return found

    def velocity(self, lr=0.02, momentum=0.9):
        """What Nesterov's momentum makes of the gradients: the velocity after every step."""
        v, found = torch.zeros_like(self.gradient[0]), []
        for gradient in self.gradient:
            v = momentum * v - lr * gradient
            found.append(v)
        return found


def check_losses(watched, prefix, *at, atol=2e-5):
    """The mean prior and identity losses of every step are those stored under this prefix; at: leading indices."""
    for name, found in (("prior", watched.prior), ("iden", watched.identity)):
        expected = golden(f"{prefix}_{name}_loss")[at]
        torch.testing.assert_close(torch.stack(found), expected, check_dtype=False, atol=atol, rtol=0)
