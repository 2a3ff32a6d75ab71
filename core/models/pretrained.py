"""Published weights: find them in the local cache, read them without unpickling code, fit their keys."""

from __future__ import annotations

import hashlib
import pickle
import re
from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor, nn

from core.errors import InputError

# Wrappers that training scripts leave in front of the keys: DataParallel, the publication's own class,
# torch.compile.
_WRAPPER = re.compile(r"^(?:(?:module|model|_orig_mod)\.)+")
# torchvision's DenseNet files still spell "norm.1", its modules "norm1".
_OLD_DENSE_LAYER = re.compile(r"(denselayer\d+\.(?:norm|relu|conv))\.([12]\.)")


def pretrained_weights_path(weights_url: str) -> Path:
    """Where torch hub would keep the file of this URL; it need not exist."""
    return Path(torch.hub.get_dir()) / "checkpoints" / weights_url.rsplit("/", 1)[-1]


def read_pretrained_state(architecture: str, weights_url: str | None) -> dict[str, Tensor]:
    """The ImageNet state dictionary of an architecture from the torch hub cache; nothing is downloaded.

    Raises InputError if there are no such weights, the file is not there, or its content does not match its
    name.
    """
    if weights_url is None:
        raise InputError(f"pretrained: expected an architecture with ImageNet weights, got {architecture}")
    path = pretrained_weights_path(weights_url)
    if not path.is_file():
        raise InputError(
            f"pretrained {architecture}: expected {path.name} in {path.parent} (from {weights_url}), "
            "got none; nothing is downloaded by itself"
        )
    if not _content_matches_name(path):
        raise InputError(f"pretrained {architecture}: {path} is damaged: its SHA-256 does not match its name")
    try:
        return torch.load(path, map_location="cpu", weights_only=True)
    except (RuntimeError, pickle.UnpicklingError, EOFError) as error:
        raise InputError(
            f"pretrained {architecture}: {path} is no readable weight file ({type(error).__name__})"
        ) from error


def load_published_state(classifier: nn.Module, state: Mapping[str, Tensor], head: str) -> None:
    """Load weights saved under torchvision's names into a `Classifier` (strictly).

    `head` is the name of the classification layer in torchvision's network ("fc"). Prefixes of DataParallel,
    of torch.compile and of the published trainer are dropped. Raises InputError naming the first key that
    does not fit.
    """
    own = {}
    for key, value in state.items():
        name = _OLD_DENSE_LAYER.sub(r"\1\2", _WRAPPER.sub("", key))
        is_head = head and name.startswith(head + ".")
        own["head" + name[len(head) :] if is_head else "backbone." + name] = value
    expected = classifier.state_dict()
    missing = [k for k in expected if k not in own and not k.endswith("num_batches_tracked")]
    unknown = [k for k in own if k not in expected]
    for kind, keys in (("missing", missing), ("unknown", unknown)):
        if keys:
            raise InputError(f"weights: {len(keys)} {kind} keys, first {keys[0]}")
    for key, value in own.items():
        if value.shape != expected[key].shape:
            raise InputError(f"weights: {key}: expected shape {tuple(expected[key].shape)}, got {tuple(value.shape)}")
    classifier.load_state_dict(own, strict=False)


def _content_matches_name(path: Path) -> bool:
    """Whether the end of the file name begins the file's SHA-256, as torch hub's names promise."""
    prefix = path.stem.rsplit("-", 1)[-1]
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest().startswith(prefix)
