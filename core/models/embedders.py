"""Embedders that judge reconstructions: networks a target classifier and an attack never saw, of faces or anything."""

from __future__ import annotations

from pathlib import Path

from torch import Tensor, nn

from smoothsweep.core.errors import InputError
from smoothsweep.core.models.embedder_kinds import KINDS
from smoothsweep.core.models.pretrained import most_of, plain_tensors, read_tensor_file
from smoothsweep.core.models.weight_files import (
    WEIGHT_FILES,
    by_hand,
    find_weight_file,
    verify_weight_file,
    weight_folders,
)
from smoothsweep.core.readers.tensors import UnreadableTensors, read_safetensors


def load_embedder(name: str, weights: Path | None = None) -> nn.Module:
    """An embedder ready to judge: evaluation mode, frozen, on the CPU.

    weights: a safetensors file, of those with a published file also that one, which is read without unpickling code.
    None means the shipped file, where one is, or of those the staged one, which must have the published
    checksum. The others expect faces in the tight frame (brows to chin) of the 112 x 112 five-point template.

    Raises InputError for an unknown name, and for a file that is missing, cannot be read, does not fit the
    network key by key, or holds numbers that are not finite. Nothing is downloaded.
    """
    if name not in KINDS:
        raise InputError(f"embedder: expected one of {', '.join(KINDS)}, got {name!r}")
    kind = KINDS[name]
    path = Path(weights) if weights is not None else own_weights(name)
    net: nn.Module = kind.make()
    state = _read(path, name, most_of(net))
    _fill(net, kind.our_state(state), f"embedder {name}: {path}")
    return net.eval().requires_grad_(False)


def own_weights(name: str) -> Path:
    """The shipped or staged file of an embedder. Raises InputError where it has none, or one that is damaged."""
    kind = KINDS[name]
    if kind.is_staged:
        entry, folders = WEIGHT_FILES[name], weight_folders()
        path = find_weight_file(name, folders)
        if path is None:
            raise InputError(f"embedder {name}: {by_hand(entry, folders[0])}; nothing is downloaded by itself")
        verify_weight_file(path, entry)
        return path
    if kind.shipped_file is None:
        raise InputError(f"embedder {name}: expected the path of a safetensors file ({_origin(name)}), got none")
    return kind.shipped_file


def _origin(name: str) -> str:
    kind = KINDS[name]
    return f"or the published {WEIGHT_FILES[name].file_name}" if kind.is_staged else kind.origin


def _read(path: Path, name: str, most_bytes: int) -> dict[str, Tensor]:
    if not path.is_file():
        raise InputError(f"embedder {name}: no file {path}; expected a safetensors file ({_origin(name)})")
    if KINDS[name].is_staged and path.suffix != ".safetensors":
        return plain_tensors(
            read_tensor_file(path, f"embedder {name}"), f"embedder {name}: {path}", most_bytes=most_bytes
        )
    try:
        return read_safetensors(path, most_bytes=most_bytes)
    except UnreadableTensors as error:
        raise InputError(f"embedder {name}: {path} is not a readable safetensors file: {error}") from error


def _fill(net: nn.Module, state: dict[str, Tensor], where: str) -> None:
    """Load strictly, and say in one line what does not fit; BatchNorm's unused step counts may be absent."""
    wanted = net.state_dict()
    faults = [f"misses {key}" for key in wanted if key not in state and not key.endswith(".num_batches_tracked")]
    faults += [f"has unknown {key}" for key in state if key not in wanted]
    faults += [
        f"{key} is {tuple(state[key].shape)}, expected {tuple(wanted[key].shape)}"
        for key in wanted
        if key in state and state[key].shape != wanted[key].shape
    ]
    if not faults:
        cast = {key: value.to(wanted[key].dtype) for key, value in state.items()}
        faults = [f"{key} has NaN or infinity" for key, value in cast.items() if not value.isfinite().all()]
    if faults:
        more = f" and {len(faults) - 3} more" if len(faults) > 3 else ""
        raise InputError(f"{where} does not fit the network: {'; '.join(faults[:3])}{more}")
    net.load_state_dict(state)
