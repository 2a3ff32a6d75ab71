"""What an image of each prior costs on one thread: `python -m benchmarks.priors`."""

from __future__ import annotations

import time
from collections.abc import Callable

import torch
from torch import Tensor

from smoothsweep.core.priors.eigenfaces import Eigenfaces
from smoothsweep.core.priors.eigenfaces_settings import EigenfacesConfig
from smoothsweep.core.priors.stylegan2 import StyleGAN2
from smoothsweep.core.priors.stylegan2_ops import EPSILON, conv2d_resampled
from tools.weights.train_demo_generator import CONFIG

_COMPONENTS = 150
_BATCHES = (1, 8, 32)
_ROUNDS = 5


def modulated_conv2d_grouped(
    x: Tensor,
    weight: Tensor,
    style: Tensor,
    kernel: Tensor,
    *,
    up: int = 1,
    demodulate: bool = True,
    gain: float = 1.0,
) -> Tensor:
    """`modulated_conv2d` by its definition, one set of weights per image. The oracle of tests."""
    own = weight[None] * style[:, None, :, None, None]
    if demodulate:
        own = own * (own.square().sum(dim=(2, 3, 4), keepdim=True) + EPSILON).rsqrt()
    n, outputs = own.shape[:2]
    y = conv2d_resampled(x.reshape(1, -1, *x.shape[2:]), own.flatten(0, 1), kernel, up=up, groups=n)
    return gain * y.reshape(n, outputs, *y.shape[2:])


def measure() -> dict[str, float]:
    """Milliseconds of CPU time per 64-pixel image: {"eigenfaces, batch 8, forward": ..., ...}, best of five rounds.

    CPU time of one thread, rounds interleaved, so that whatever else the machine is doing counts little. Weights are
    random: they do not change the cost.
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        runs = _runs()
        best = dict.fromkeys(runs, float("inf"))
        for _ in range(_ROUNDS + 1):  # the first round warms up
            for name, (run, images) in runs.items():
                start = time.process_time()
                run()
                best[name] = min(best[name], (time.process_time() - start) * 1000 / images)
        return best
    finally:
        torch.set_num_threads(threads)


def main() -> None:
    """Print one line per prior, batch size and direction."""
    for name, milliseconds in measure().items():
        print(f"{name}: {milliseconds:.2f} ms per image")


def _runs() -> dict[str, tuple[Callable[[], object], int]]:
    eigenfaces = Eigenfaces(EigenfacesConfig(resolution=CONFIG.resolution, components=_COMPONENTS))
    stylegan2 = StyleGAN2(CONFIG).requires_grad_(False)
    forms: dict[str, tuple[int, Callable[[Tensor], Tensor]]] = {
        "eigenfaces": (_COMPONENTS, lambda w: eigenfaces.synthesize(w)),
        "stylegan2": (CONFIG.w_dim, lambda w: stylegan2.synthesize(w)),
        "stylegan2, grouped form": (
            CONFIG.w_dim,
            lambda w: stylegan2.synthesis(w.expand(-1, CONFIG.num_ws, -1), "const", modulated_conv2d_grouped),
        ),
    }
    runs = {}
    for name, (size, synthesize) in forms.items():
        for batch in _BATCHES:
            w = torch.randn(batch, 1, size, generator=torch.Generator().manual_seed(0))
            repeats = max(1, 64 // batch)
            forward, both = _directions(synthesize, w, repeats)
            runs[f"{name}, batch {batch}, forward"] = (forward, batch * repeats)
            runs[f"{name}, batch {batch}, forward and backward"] = (both, batch * repeats)
    return runs


def _directions(
    synthesize: Callable[[Tensor], Tensor], w: Tensor, repeats: int
) -> tuple[Callable[[], None], Callable[[], None]]:
    def forward() -> None:
        with torch.no_grad():
            for _ in range(repeats):
                synthesize(w)

    def both() -> None:
        leaf = w.clone().requires_grad_()
        for _ in range(repeats):
            synthesize(leaf).square().mean().backward()

    return forward, both


if __name__ == "__main__":
    main()
