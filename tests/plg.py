"""What the tests of PLG-MI share: its golden arrays, and its networks with the official weights by formula."""

import json
from functools import cache

import numpy as np
import torch

from smoothsweep.core.attacks.plg_search import Distortion
from tests.lowres import FOLDER, s

_RENAMED = (
    ("conv1", "c1"),
    ("conv2", "c2"),
    ("norm1", "b1"),
    ("norm2", "b2"),
    ("scale", "weights"),
    ("shift", "biases"),
    ("shortcut", "c_sc"),
)
_ROOTS = {
    "G": {"linear": "l1", "norm": "b6", "rgb": "conv6", "first block": 2},
    "D": {"linear": "l6", "embed": "l_y", "first block": 1},
}


@cache
def _arrays():
    return np.load(FOLDER / "plg.npz")


def golden(name):
    """A stored array as a tensor; strings as they are."""
    array = _arrays()[name]
    return torch.from_numpy(np.array(array)) if array.dtype.kind in "fiub" else array


def shapes(name):
    """Official name -> shape of a small network."""
    return {key: tuple(shape) for key, shape in json.loads(str(golden(name))).items()}


def official(name, which):
    """The official name of a tensor of our generator ("G") or discriminator ("D")."""
    root, rest = name.split(".", 1)
    roots = _ROOTS[which]
    if root == "blocks":
        number, rest = rest.split(".", 1)
        root = f"block{int(number) + roots['first block']}"
    else:
        root = roots[root]
    for ours, theirs in _RENAMED:
        rest = rest.replace(ours, theirs)
    return f"{root}.{rest}"


def fill(network, name, which, gain):
    """The network with the weights by formula of the official network `name`."""
    state = {}
    for key, value in network.state_dict().items():
        theirs = official(key, which)
        kept = theirs.endswith("num_batches_tracked")
        state[key] = value if kept else _weight(f"{name}/{theirs}", theirs, tuple(value.shape), gain)
    network.load_state_dict(state)
    return network


def _weight(where, key, shape, gain):
    signed = s(where, shape)
    if key.endswith(("weight_u", "weight_v")):
        return signed / signed.norm()
    if key.endswith("running_var"):
        return 1 + 0.5 * signed
    if key.endswith(("weights.weight", "biases.weight")):
        return (1 if key.endswith("weights.weight") else 0) + 0.2 * signed
    if key.endswith(("running_mean", "bias")):
        return 0.1 * signed
    if len(shape) == 1:
        return 1 + 0.2 * signed
    return gain * (3 * shape[0] / signed.numel()) ** 0.5 * signed


def distortion(prefix, *at):
    """The parameters of a stored kornia pipeline; at: leading indices, down to the axis of the images."""
    values = {
        name: golden(f"{prefix}_{name}")[at]
        for name in ("box", "jitter_on", "brightness", "contrast", "order", "flip_on", "rotate_on", "degrees")
    }
    left, top, right, _ = values["box"].unbind(-1)
    return Distortion(
        left=left,
        top=top,
        side=right - left + 1,
        jitter=values["jitter_on"],
        brightness=values["brightness"],
        contrast=values["contrast"],
        order=values["order"][None],
        mirror=values["flip_on"],
        rotate=values["rotate_on"],
        degrees=values["degrees"],
    )


def undistorted(count, side=64):
    """A draw that changes nothing."""
    none, nothing = torch.zeros(count, dtype=torch.bool), torch.zeros(count)
    corner = torch.zeros(count, dtype=torch.int64)
    return Distortion(
        left=corner,
        top=corner,
        side=corner + side,
        jitter=none,
        brightness=nothing + 1,
        contrast=nothing + 1,
        order=torch.arange(4)[None],
        mirror=none,
        rotate=none,
        degrees=nothing,
    )
