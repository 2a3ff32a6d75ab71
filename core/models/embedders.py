"""Face embedders that judge reconstructions: networks a target classifier and an attack never saw."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn

from core.errors import InputError
from core.models.mobilefacenet import MobileFaceNetA, MobileFaceNetB
from core.models.synthetic_embedder import SyntheticEmbedder

# Every entry: forward(images float [N, 3, S, S] in [-1, 1], any S) -> float32 [N, D] of unit length.
EMBEDDERS: dict[str, Callable[[], nn.Module]] = {
    "synthetic": SyntheticEmbedder,
    "mobilefacenet_a": MobileFaceNetA,
    "mobilefacenet_b": MobileFaceNetB,
}

_SHIPPED = {"synthetic": Path(__file__).parent / "weights" / "synthetic_embedder.safetensors"}
_ORIGIN = {
    "synthetic": "as `python -m core.models.train_embedder` writes them",
    "mobilefacenet_a": "the state dict of github.com/Xiaoccer/MobileFaceNet_Pytorch, model/best/068.ckpt",
    "mobilefacenet_b": "the state dict of github.com/foamliu/MobileFaceNet, weights/mobilefacenet.pt",
}


def load_embedder(name: str, weights: Path | None = None) -> nn.Module:
    """An embedder ready to judge: evaluation mode, frozen, on the CPU.

    weights: a safetensors file; None means the shipped one, which only "synthetic" has. The MobileFaceNets expect faces
    in the tight frame (brows to chin) of the 112 x 112 five-point template. Raises InputError for an unknown name, and
    for a file that is missing, is not safetensors, or does not fit the network key by key.
    """
    if name not in EMBEDDERS:
        raise InputError(f"embedder: expected one of {', '.join(EMBEDDERS)}, got {name!r}")
    path = weights if weights is not None else _SHIPPED.get(name)
    if path is None:
        raise InputError(f"embedder {name}: expected the path of a safetensors file ({_ORIGIN[name]}), got none")
    net = EMBEDDERS[name]()
    _fill(net, _read(Path(path), name), f"embedder {name}: {path}")
    return net.eval().requires_grad_(False)


def _read(path: Path, name: str) -> dict[str, Tensor]:
    if not path.is_file():
        raise InputError(f"embedder {name}: no file {path}; expected a safetensors file ({_ORIGIN[name]})")
    try:
        return load_file(path)
    except SafetensorError as error:
        raise InputError(f"embedder {name}: {path} is not a readable safetensors file: {error}") from error


def _fill(net: nn.Module, state: dict[str, Tensor], where: str) -> None:
    """Load strictly, and say in one line what does not fit."""
    wanted = net.state_dict()
    faults = [f"misses {key}" for key in wanted if key not in state]
    faults += [f"has unknown {key}" for key in state if key not in wanted]
    faults += [
        f"{key} is {tuple(state[key].shape)}, expected {tuple(wanted[key].shape)}"
        for key in wanted
        if key in state and state[key].shape != wanted[key].shape
    ]
    if faults:
        more = f" and {len(faults) - 3} more" if len(faults) > 3 else ""
        raise InputError(f"{where} does not fit the network: {'; '.join(faults[:3])}{more}")
    net.load_state_dict(state)
