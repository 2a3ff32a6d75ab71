"""Networks made ready for an attack: frozen copies in the form that runs fastest, and the batches they run in."""

from __future__ import annotations

import copy
from collections.abc import Callable, Generator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, TypeVar

import torch
from torch import Tensor, fx, nn
from torch.nn.utils.fusion import fuse_conv_bn_eval

from smoothsweep.core.attacks.optimisation.descent import Descent, StepGradient, Target
from smoothsweep.core.devices import DeviceBatch, ExecutionConfig, arithmetic, channels_last, suitable_rows
from smoothsweep.core.priors.base import Decoder, PriorNetwork, spread_over_places

Made = TypeVar("Made")
Synthesize = Callable[[Tensor], Tensor]
"""w [N, 1 or num_ws, w_dim] -> images float32 [N, 3, S, S]."""


class PreparedTarget:
    """A target that an `Execution` has made ready and that a view has wrapped: it is used as it is.

    shown: where the wrapping counts the images that it has been shown, None where it does not.
    """

    def __init__(self, answer: Target, *, shown: list[int] | None = None) -> None:
        self._answer, self.shown = answer, [0] if shown is None else shown

    def __call__(self, images: Tensor) -> Tensor:
        """images [N, 3, S, S] -> float32 logits [N, C]."""
        return self._answer(images)


@contextmanager
def _uncounted(networks: Sequence[object]) -> Generator[None]:
    """A context for passes whose answers an attack does not use: finding out how many rows to compute at once."""
    before = [(network.shown, network.shown[0]) for network in networks if isinstance(network, PreparedTarget)]
    try:
        yield
    finally:
        for shown, count in before:
            shown[0] = count


class Execution:
    """An `ExecutionConfig` on a device, with what was prepared under it: networks and batch sizes.

    Networks are copied when they are first used, so that preparing, compiling and measuring happen once for all
    classes of a target. It is therefore for networks whose weights do not change; make a new one after training.
    """

    def __init__(self, config: ExecutionConfig, device: torch.device | str) -> None:
        self.config = config
        self.device = torch.device(device)
        config.check_device(self.device)
        self._made: dict[tuple[object, ...], tuple[Sequence[object], Any]] = {}

    def once(self, what: tuple[object, ...], networks: Sequence[object], make: Callable[[], Made]) -> Made:
        """What `make` gives, made once for each `what` of these objects."""
        key = (*what, *map(id, networks))
        if key not in self._made:
            with _uncounted(networks):
                self._made[key] = networks, make()  # holds the networks, or their ids would be used again
        return self._made[key][1]

    def arithmetic(self) -> AbstractContextManager[None]:
        """What every computation of the attack runs in."""
        return arithmetic(self.config.precision)

    def synthesizer(self, prior: Decoder, crop: int | None = None) -> Synthesize:
        """`prior.synthesize` in the form to use; with `crop` of the central crop alone, where the prior can do that.

        A prior that cannot gives whole images: crop them again, which does nothing to the others.
        """
        return self.once(("prior", crop), (prior,), lambda: self.accelerated(self._prepare_prior(prior, crop)))

    def frozen_synthesis(self, prior: PriorNetwork, crop: int | None = None) -> Any:
        """`PriorNetwork.frozen_synthesis` in the precision to use, made once for a crop, or None."""
        dtype = torch.bfloat16 if self.config.precision == "bf16" else None
        return self.once(("synthesis", crop), (prior,), lambda: prior.frozen_synthesis(crop=crop, dtype=dtype))

    def target(self, target: Target) -> Target:
        """The target in the form to use: images [N, 3, S, S] -> float32 logits [N, C]."""
        if isinstance(target, PreparedTarget):
            return target
        return self.once(("target",), (target,), lambda: self.accelerated(self._prepare_target(target)))

    def ensemble(self, targets: Sequence[nn.Module]) -> PreparedTarget:
        """The targets as one, whose logits are the mean of theirs; the same one for the same networks."""
        answers = [self.target(target) for target in targets]
        return self.once(
            ("ensemble",),
            targets,
            lambda: PreparedTarget(lambda images: torch.stack([answer(images) for answer in answers]).mean(0)),
        )

    def gradient_batch(
        self, name: str, networks: tuple[object, ...], probe: Callable[[int], object], *, most: int
    ) -> DeviceBatch:
        """The batch of passes with gradients through prepared networks; measured by `probe(rows)` on first use.

        What the probe shows a target is none of the attack's queries: it depends on who comes first in a process.
        """

        def measured() -> DeviceBatch:
            return DeviceBatch(self.config.rows_per_batch or suitable_rows(probe, self.device, most=most), what=name)

        return self.once((name, most), networks, measured)

    def forward_batch(self, name: str, network: object, *, most: int) -> DeviceBatch:
        """The batch of passes without gradients through a prepared network, at most `most` rows to begin with.

        A forward pass keeps little, so nothing is measured: the back-off finds what does not fit.
        """
        return self.once((name, most), (network,), lambda: DeviceBatch(self.config.rows_per_batch or most, what=name))

    @property
    def batch_halvings(self) -> int:
        """How often a batch was halved because the device had no memory left, in all that was run with this.

        More than 0 says that the numbers were cut, and so rounded, otherwise than a free device would have.
        """
        return sum(made.halved for _, made in self._made.values() if isinstance(made, DeviceBatch))

    @property
    def batches_freely(self) -> bool:
        """Whether the user left it at its defaults, so that the batching is ours to choose."""
        config = self.config
        return config.precision == "fp32" and not config.compile and config.rows_per_batch is None

    def _prepare_prior(self, prior: Decoder, crop: int | None) -> Synthesize:
        if not isinstance(prior, PriorNetwork) or (synthesis := self.frozen_synthesis(prior, crop)) is None:
            return lambda w: self._cast(prior.synthesize, w)
        return lambda w: synthesis(spread_over_places(w, num_ws=prior.num_ws, w_dim=prior.w_dim))

    def _prepare_target(self, target: Target) -> Target:
        if isinstance(target, nn.Module):
            target = frozen_copy(target, torch.bfloat16 if self.config.precision == "bf16" else torch.float32)
        return lambda images: self._cast(target, images)

    def _cast(self, function: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
        low = self.config.precision == "bf16"
        with torch.autocast(self.device.type, dtype=torch.bfloat16) if low else nullcontext():
            output = function(x)
        return output.float() if low else output

    def accelerated(self, function: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
        """The function as this execution runs it: compiled, recorded, or as it is."""
        if self.config.compile:
            return torch.compile(function, dynamic=False)
        return graphed(function) if self.config.cuda_graphs else function


def graphed(function: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    """`function`, its forward and backward pass recorded as CUDA graphs, one pair per shape of its argument.

    Its results are overwritten by the next call. Calls without gradients are not recorded.
    """
    recorded: dict[tuple[object, ...], Any] = {}

    def replayed(x: Tensor) -> Tensor:
        if not (torch.is_grad_enabled() and x.requires_grad):
            return function(x)
        key = (tuple(x.shape), x.stride(), x.dtype)
        if key not in recorded:
            sample = x.detach().clone().requires_grad_(True)
            recorded[key] = torch.cuda.make_graphed_callables(function, (sample,))
        return recorded[key](x)

    return replayed


def frozen_copy(network: nn.Module, dtype: torch.dtype = torch.float32) -> nn.Module:
    """A copy in eval mode, without parameter gradients, in channels-last memory, BatchNorm folded into convolutions.

    With another dtype only the weights of convolutions and linear layers are converted: for use under autocast. Equal
    to `network` up to rounding. BatchNorm stays where it does not follow a convolution, where torch.fx cannot trace
    the network, and where hooks, which tracing would lose, look at it.
    """
    network = copy.deepcopy(network).eval().requires_grad_(False)
    if not any(module._forward_hooks or module._forward_pre_hooks for module in network.modules()):
        network = fold_batchnorm(network)
    if dtype != torch.float32:
        for module in network.modules():
            if isinstance(module, nn.Conv2d | nn.Linear):
                module.to(dtype)
    return channels_last(network)


def fold_batchnorm(network: nn.Module) -> nn.Module:
    """`network` (in eval mode) with each BatchNorm that alone follows a convolution folded into it; shares its modules.

    Returned as it came where torch.fx cannot trace it, because its control flow depends on its input.
    """
    try:
        traced = fx.symbolic_trace(network)
    except (TypeError, NameError, RuntimeError, ValueError, AttributeError, KeyError):
        # What a failed trace raises: its own TraceError (a ValueError), or whatever the network says to a stand-in.
        return network
    modules = dict(traced.named_modules())
    for node in list(traced.graph.nodes):
        if node.op != "call_module" or not isinstance(modules[node.target], nn.BatchNorm2d):
            continue
        before = node.args[0]
        if before.op != "call_module" or not isinstance(modules[before.target], nn.Conv2d) or len(before.users) > 1:
            continue
        called = sum(other.op == "call_module" and other.target == before.target for other in traced.graph.nodes)
        if called > 1 or modules[node.target].running_mean is None:
            continue
        fused = fuse_conv_bn_eval(modules[before.target], modules[node.target])
        traced.set_submodule(before.target, fused.requires_grad_(False))
        node.replace_all_uses_with(before)
        traced.graph.erase_node(node)
    traced.delete_all_unused_submodules()
    traced.recompile()
    return traced.eval()


@contextmanager
def frozen(*models: object) -> Generator[None]:
    """Every nn.Module among `models` is in eval mode, its parameters without gradients; restored afterwards.

    Other callables (a plain function as target) are left alone.
    """
    modules = [module for model in models if isinstance(model, nn.Module) for module in model.modules()]
    parameters = [p for model in models if isinstance(model, nn.Module) for p in model.parameters()]
    modes = [module.training for module in modules]
    wanted = [parameter.requires_grad for parameter in parameters]
    try:
        for module in modules:
            module.training = False
        for parameter in parameters:
            parameter.requires_grad_(False)
        yield
    finally:
        for module, mode in zip(modules, modes, strict=True):
            module.training = mode
        for parameter, flag in zip(parameters, wanted, strict=True):
            parameter.requires_grad_(flag)


Search = Callable[[Sequence[int], int], Descent]
"""(classes, steps) -> the descent of their rows, one class after the other."""

_TRIED = 2  # steps: the second one has the optimiser's memory of the first


def descend_classes(
    search: Search,
    classes: Sequence[int],
    *,
    rows: int,
    steps: int,
    run: Execution,
    networks: tuple[object, ...],
    what: tuple[object, ...] = (),
) -> list[Descent]:
    """The descent of each class, of `rows` rows each: all in one where that changes no bit of any, else in turn.

    A pass costs a row the less, the more rows it has, up to some twenty or thirty (docs/benchmarks.md), and the rows of
    a search share nothing. Whether kernels give a row the same bits in a larger pass depends on the machine: so the
    first, the middle and the last class are tried alone first, once for each number of classes, and not counted among
    the target's queries.

    networks: the prepared ones that the search goes through; what: all else that its passes depend on.
    """

    def rows_of(number: int) -> slice:
        return slice(number * rows, (number + 1) * rows)

    def agree() -> bool:
        tried = min(_TRIED, steps)
        whole = search(classes, tried)
        places = sample_positions(len(classes))
        return all(same_tensors(search([classes[n]], tried), whole.of(rows_of(n))) for n in places)

    together = len(classes) > 1 and run.batches_freely
    if together and run.once(("descents", len(classes), rows, *what), networks, agree):
        whole = search(classes, steps)
        return [whole.of(rows_of(number)) for number in range(len(classes))]
    return [search([target_class], steps) for target_class in classes]


def sample_positions(classes: int) -> list[int]:
    """Indices of the first, the middle and the last class: kernels may treat the ends of a pass differently."""
    return sorted({0, classes // 2, classes - 1})


def same_bits(first: Tensor, other: Tensor) -> bool:
    """Whether two tensors are equal bit by bit, NaN included."""
    if first.shape != other.shape or first.dtype != other.dtype:
        return False
    return torch.equal(*(tensor.contiguous().reshape(-1).view(torch.uint8) for tensor in (first, other)))


def same_tensors(first: Descent | StepGradient, other: Descent | StepGradient) -> bool:
    """Whether all tensors of both are equal bit by bit."""
    return all(same_bits(part, getattr(other, name)) for name, part in vars(first).items())
