"""How fast latents are optimised on one thread: `python -m benchmarks.attack_core`."""

from __future__ import annotations

import time

import torch

from smoothsweep.core.attacks.optimisation.crops import Preprocess
from smoothsweep.core.attacks.ppa.config import OptimiseConfig
from smoothsweep.core.attacks.ppa.inversion import optimise
from smoothsweep.core.models.classifiers import build_classifier
from smoothsweep.core.priors.eigenfaces import Eigenfaces
from smoothsweep.core.priors.eigenfaces_settings import EigenfacesConfig

_SIZES = (32, 64)
_BATCHES = (8, 16, 50, 100)
_COMPONENTS = 150
_CLASSES = 50
_LATENT_STEPS = 800


def measure() -> dict[str, float]:
    """Latents x steps per second of one thread's CPU time, protocol `clean`: {"32 px, batch 8": ..., ...}.

    CPU time, so that whatever else the machine is doing counts little.
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        return {f"{size} px, batch {batch}": _rate(size, batch) for size in _SIZES for batch in _BATCHES}
    finally:
        torch.set_num_threads(threads)


def main() -> None:
    """Print one line per image size and batch size."""
    for name, rate in measure().items():
        print(f"attack, eigenfaces and resnet_small, {name}: {rate:.0f} latent steps per CPU second")


def _rate(size: int, batch: int) -> float:
    source = torch.Generator().manual_seed(0)
    prior = Eigenfaces(EigenfacesConfig(resolution=size, components=_COMPONENTS))
    prior.components.copy_(torch.randn(prior.components.shape, generator=source) / size)
    prior.std.fill_(1.0)
    target = build_classifier("resnet_small", _CLASSES, protocol="clean")
    w0 = torch.randn(batch, 1, _COMPONENTS, generator=source)

    def run(steps: int) -> float:
        config = OptimiseConfig(steps=steps, lr=0.03, batch_size=batch)
        start = time.process_time()
        transform = Preprocess(size=size)
        optimise(prior, target, w0, 0, config, seed=0, protocol="clean", transform=transform, device="cpu")
        return time.process_time() - start

    run(2)
    steps = max(4, _LATENT_STEPS // batch)
    return batch * steps / run(steps)


if __name__ == "__main__":
    main()
