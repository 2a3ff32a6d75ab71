"""What a step of the attack asks of a GPU, counted without one: `python -m benchmarks.attack_counted`.

ResNet-152 at 224 pixels and the 1024-pixel StyleGAN2 lie on torch's "meta" device, which computes shapes and no
numbers, so that a step in full size takes a second. Counted are the kernels of a step (operations that are no views),
their floating-point operations (torch.utils.flop_counter) and the bytes of the tensors that they read and write, as
eager mode runs them. A step that waited for a number (.item(), bool(tensor), a copy to the host) would stop: there are
no numbers. What the device takes at least follows from the bytes and from the operations.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from typing import Any
from unittest.mock import patch

import torch
import torchvision
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten
from torch.utils.flop_counter import flop_registry

from smoothsweep.core.attacks.optimisation.crops import Preprocess
from smoothsweep.core.attacks.optimisation.descent import LatentObjective
from smoothsweep.core.attacks.optimisation.losses import attack_loss
from smoothsweep.core.attacks.ppa.batches import batches_of
from smoothsweep.core.attacks.ppa.config import OptimiseConfig
from smoothsweep.core.attacks.ppa.inversion import descend_batches, gradient_batch
from smoothsweep.core.attacks.shared.execution import Execution, frozen
from smoothsweep.core.devices import ExecutionConfig, Precision
from smoothsweep.core.priors.settings import StyleGAN2Config
from smoothsweep.core.priors.stylegan2 import StyleGAN2
from smoothsweep.core.priors.stylegan2_ops import _LowPass

BANDWIDTH, PEAK = 4.8e12, {"bf16": 989e12, "tf32": 494e12}
"""Of an H200: bytes per second, and dense operations per second."""

FILTER, CONVOLUTIONS, OTHER = "low-pass filters", "convolutions", "everything else"
_CONVOLVES = ("aten.convolution", "aten.convolution_backward")


@dataclass
class Counts:
    """Of one step: kernels, bytes and floating-point operations by group; operations on gradients of weights."""

    kernels: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    bytes: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    flops: int = 0
    weight_gradients: int = 0

    def minus(self, other: Counts) -> Counts:
        """What was counted here and not there."""
        return Counts(
            kernels={name: number - other.kernels[name] for name, number in self.kernels.items()},
            bytes={name: number - other.bytes[name] for name, number in self.bytes.items()},
            flops=self.flops - other.flops,
            weight_gradients=self.weight_gradients - other.weight_gradients,
        )


class Counting(TorchDispatchMode):
    """Counts what is done on "meta" while it is open."""

    def __init__(self) -> None:
        super().__init__()
        self.found, self.group = Counts(), OTHER

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        given = dict(kwargs or {})
        made = func(*args, **given)
        tensors = [one for one in tree_flatten((args, given, made))[0] if isinstance(one, Tensor) and one.is_meta]
        if not tensors or _is_view(func):
            return made
        packet = func._overloadpacket
        group = CONVOLUTIONS if str(packet) in _CONVOLVES else self.group
        self.found.kernels[group] += 1
        self.found.bytes[group] += sum(one.numel() * one.element_size() for one in tensors)
        if packet in flop_registry:
            self.found.flops += flop_registry[packet](*args, **given, out_val=made)
        self.found.weight_gradients += packet is torch.ops.aten.convolution_backward and args[-1][1]
        return made

    @contextmanager
    def filters(self) -> Generator[None]:
        """While it is open, the low-pass filters' kernels are a group of their own."""
        usual = _LowPass.forward

        def marked(*given: Any) -> Tensor:
            before, self.group = self.group, FILTER
            try:
                return usual(*given)
            finally:
                self.group = before

        with patch.object(_LowPass, "forward", staticmethod(marked)):
            yield


def _is_view(func: Any) -> bool:
    return any(one.alias_info is not None and not one.alias_info.is_write for one in func._schema.returns)


def networks(*, smoke: bool) -> tuple[StyleGAN2, nn.Module, Preprocess, int]:
    """The prior and the target of the paper, without numbers; how images reach the target; latents of a batch."""
    config = StyleGAN2Config(resolution=32 if smoke else 1024, z_dim=512, w_dim=512, mapping_layers=8)
    with torch.device("meta"):
        make = torchvision.models.resnet18 if smoke else torchvision.models.resnet152
        target = make(weights=None, num_classes=530).eval()
        return StyleGAN2(config), target, Preprocess(size=28 if smoke else 224, crop=24 if smoke else 800), 25


def step_counts(precision: Precision, *, smoke: bool) -> tuple[Counts, int]:
    """What a step of one batch asks for (protocol paper), and how many latents it moves."""
    prior, target, transform, rows = networks(smoke=smoke)
    run = Execution(ExecutionConfig(precision="bf16" if precision == "bf16" else "fp32", rows_per_batch=rows), "meta")
    with frozen(prior, target), patch.object(torch, "autocast", _no_autocast), patch.object(run, "_cast", _casting):
        parts: dict[str, Any] = {
            "synthesize": run.synthesizer(prior, transform.crop),
            "target": run.target(target),
            "transform": transform,
        }
        found = [_counted(parts, run, rows, steps) for steps in (2, 3)]
    return found[1].minus(found[0]), rows


def _counted(parts: Mapping[str, Any], run: Execution, rows: int, steps: int) -> Counts:
    config, start = OptimiseConfig(steps=steps, batch_size=rows), torch.empty(rows, 1, 512, device="meta")
    at_once = gradient_batch(run, dict(parts), start, config)
    objective = partial(LatentObjective, **parts, batch=at_once, loss=attack_loss(config.loss, "paper"))
    batches = batches_of(3, (0, 3, "optimise"), rows, rows)
    counting = Counting()
    with counting, counting.filters():
        descend_batches(start, batches, objective, config, together=1, protocol="paper", steps=steps)
    return counting.found


def _no_autocast(*_: object, **__: object) -> nullcontext[None]:
    return nullcontext()


def _casting(function: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    """As autocast, which knows no "meta": the target's frozen weights say in what it computes."""
    low = isinstance(function, nn.Module) and any(one.dtype == torch.bfloat16 for one in function.parameters())
    return function(x.bfloat16()).float() if low else function(x)


def main() -> None:
    """Print a table for each precision."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--smoke", action="store_true", help="tiny sizes")
    smoke = parser.parse_args().smoke
    precisions: tuple[Precision, ...] = ("tf32", "bf16")
    for precision in precisions:
        counts, rows = step_counts(precision, smoke=smoke)
        print("\n".join(lines_of(precision, counts, rows)), flush=True)


def lines_of(precision: Precision, counts: Counts, rows: int) -> list[str]:
    """What was counted, for each latent of the step."""
    total, flops = sum(counts.bytes.values()) / rows, counts.flops / rows
    unfiltered = total - counts.bytes[FILTER] / rows
    kernels = sum(counts.kernels.values())
    shares = [
        f"  {group}: {counts.kernels[group]} kernels, {counts.bytes[group] / rows / 1e9:.2f} GB a latent"
        for group in (FILTER, CONVOLUTIONS, OTHER)
    ]
    return [
        f"{precision}: {kernels} kernels a step of {rows} latents, {counts.weight_gradients} for gradients of weights; "
        f"{flops / 1e9:.1f} GFLOP and {total / 1e9:.2f} GB a latent",
        *shares,
        f"  latents a second at most on an H200: by its bandwidth {BANDWIDTH / total:.0f}, without the filters "
        f"{BANDWIDTH / unfiltered:.0f}; by its operations {PEAK[precision] / flops:.0f}",
    ]


if __name__ == "__main__":
    main()
