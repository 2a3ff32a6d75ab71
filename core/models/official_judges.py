"""Published weights of face embedders, recognised by the names and shapes of their tensors."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from smoothsweep.core.errors import InputError
from smoothsweep.core.models.embedder_kinds import KINDS
from smoothsweep.core.models.official_targets import read_official_checkpoint
from smoothsweep.core.models.pretrained import SMALL_STATE, fitting_state
from smoothsweep.core.models.weight_files import file_sha256

WRAPPINGS = ("net_state_dict", "model_state_dict", "state_dict")
"""Keys under which the embedders' training scripts keep the weights, in the order they are looked for."""

PUBLISHED = {name: kind.published for name, kind in KINDS.items() if kind.published is not None}
"""Embedder -> what the publisher of its weights calls it; its name in a sweep file is the key."""


@dataclass(frozen=True, kw_only=True)
class ImportedJudge:
    """An embedder's weights under our names, as `load_embedder` takes them.

    Attributes:
        name: The embedder's name.
        state: Its weights by our names.
        sha256: The file's.
    """

    name: str
    state: dict[str, Tensor]
    sha256: str


def import_judge(path: Path) -> ImportedJudge:
    """The embedder whose weights a checkpoint holds; nothing in the file is executed.

    Raises InputError, one line naming the file, where it cannot be read, holds more than tensors, or fits none of the
    embedders in every name and shape; also for numbers that are not finite.
    """
    tensors = read_official_checkpoint(path, WRAPPINGS, most_bytes=SMALL_STATE)
    misses: dict[str, tuple[int, str]] = {}
    for name in PUBLISHED:
        state = KINDS[name].our_state(tensors)
        with torch.device("meta"):
            expected = KINDS[name].make().state_dict()
        if wrong := _differing(state, expected):
            misses[name] = (len(wrong), wrong[0])
        else:
            return ImportedJudge(
                name=name,
                sha256=file_sha256(path),
                state=fitting_state(state, expected, f"checkpoint {path} as {PUBLISHED[name]}"),
            )
    nearest = min(misses, key=lambda name: misses[name][0])
    many, first = misses[nearest]
    raise InputError(
        f"checkpoint {path}: expected the weights of one of {', '.join(PUBLISHED.values())}, got others: of "
        f"{PUBLISHED[nearest]} differ {many} tensors, first {first}"
    )


def _differing(state: dict[str, Tensor], expected: dict[str, Tensor]) -> list[str]:
    """What is missing, unknown or of another shape; BatchNorm's step counts, which old files lack, may be."""
    missing = [key for key in expected if key not in state and not key.endswith("num_batches_tracked")]
    unknown = [key for key in state if key not in expected]
    shapes = [key for key in state if key in expected and state[key].shape != expected[key].shape]
    return [*missing, *unknown, *shapes]
