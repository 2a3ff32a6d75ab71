"""What Plug & Play gains on one thread from classes side by side: `python -m benchmarks.attack_side_by_side`.

With the demo's attack (sweeps/quickstart.yaml) and with more candidates a class, untrained networks of its sizes. Both
ways in one run, in turn; every class's reconstructions are compared to the bit.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

import torch

from smoothsweep.core.attacks.ppa.attack import PlugAndPlay
from smoothsweep.core.attacks.ppa.config import Pool
from smoothsweep.core.attacks.shared.attack_inputs import AttackInputs
from smoothsweep.core.attacks.shared.execution import Execution
from smoothsweep.core.attacks.shared.reconstructions import Reconstructions
from smoothsweep.core.attacks.shared.view import view_of
from smoothsweep.core.devices import ExecutionConfig
from smoothsweep.core.models.classifiers import build_classifier
from smoothsweep.core.priors.eigenfaces import Eigenfaces
from smoothsweep.core.priors.eigenfaces_settings import EigenfacesConfig

CANDIDATES = (4, 8, 16)
CLASSES, COMPONENTS, IMAGE, TARGET = 48, 150, 64, 32
REPEATS = 2
DEMO = PlugAndPlay(
    loss="cross_entropy", steps=30, lr=0.03, batch_size=8, selected=2, selection_repeats=24, pool=Pool(size=500)
)


@dataclass(frozen=True, kw_only=True)
class Gain:
    """alone, beside: CPU seconds of a class, by itself and side by side; together: classes at once; same: whether all
    reconstructions have the same bits."""

    alone: float
    beside: float
    together: int
    same: bool


def measure(candidates: int, *, classes: int = CLASSES, repeats: int = REPEATS) -> Gain:
    """The better of `repeats` runs each way, on one thread, protocol `clean`."""
    attack = replace(DEMO, candidates=candidates)
    inputs, target = _case()
    together = attack.side_by_side("cpu")
    taken: dict[int, list[float]] = {1: [], together: []}
    found: dict[int, list[Reconstructions]] = {}
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        for size in [1, together] * repeats:
            execution = Execution(ExecutionConfig(), "cpu")
            view = view_of(target, "gradients", num_classes=CLASSES, image_size=TARGET, execution=execution)
            start = time.process_time()
            pieces = torch.arange(classes).split(size)
            found[size] = [one for piece in pieces for one in attack.invert_batch(view, inputs, piece.tolist(), seed=0)]
            taken[size].append((time.process_time() - start) / classes)
    finally:
        torch.set_num_threads(threads)
    same = all(_bits(one) == _bits(other) for one, other in zip(found[1], found[together], strict=True))
    return Gain(alone=min(taken[1]), beside=min(taken[together]), together=together, same=same)


def main() -> None:
    """Print one line per number of candidates."""
    for candidates in CANDIDATES:
        gain = measure(candidates)
        print(
            f"Plug & Play, {candidates} candidates a class: {gain.alone:.2f} CPU seconds a class by itself, "
            f"{gain.beside:.2f} with {gain.together} side by side ({gain.alone / gain.beside:.2f}x), "
            f"{'the same bits' if gain.same else 'OTHER BITS'}",
            flush=True,
        )


def _case() -> tuple[AttackInputs, torch.nn.Module]:
    source = torch.Generator().manual_seed(0)
    prior = Eigenfaces(EigenfacesConfig(resolution=IMAGE, components=COMPONENTS))
    prior.components.copy_(torch.randn(prior.components.shape, generator=source) / IMAGE)
    prior.std.fill_(1.0)
    size = DEMO.pool.size
    parts = {
        "pool": {"w": torch.randn(size, 1, COMPONENTS, generator=source)},
        "candidates": {"confidences": torch.rand(size, CLASSES, generator=source)},
    }
    target = build_classifier("resnet_small", CLASSES, protocol="clean").eval()
    return AttackInputs(protocol="clean", prior=prior, parts=parts), target


def _bits(found: Reconstructions) -> list[bytes]:
    tensors = [found.w, found.scores, *found.rows.values(), *found.curves.values()]
    facts = torch.tensor(list(found.facts.values()), dtype=torch.float64)
    return [tensor.numpy().tobytes() for tensor in (*tensors, facts) if tensor is not None]


if __name__ == "__main__":
    main()
