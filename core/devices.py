"""How networks are run on a device: precision, compilation, and how many rows at once.

`ExecutionConfig` says it, `DeviceBatch` keeps the number of rows that fits and halves it when memory runs out. None
of this belongs to the science of an attack: with the defaults the numbers are those of plain single precision. Yet all
of it reaches their last digits, so a name of a result by its settings holds these as well.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal, TypeVar

import torch
from torch import Tensor, nn

from smoothsweep.core.errors import InputError

T = TypeVar("T")
Network = TypeVar("Network", bound=nn.Module)
Precision = Literal["fp32", "tf32", "bf16"]
PRECISIONS = ("fp32", "tf32", "bf16")

CPU_TENSOR_BYTES = 12 * 2**20
"""Most bytes that a tensor of a batch with gradients should have on CPUs: larger ones come from the operating
system page by page, and elementwise work takes up to three times as long (measured, docs/benchmarks.md)."""

MEMORY_SHARE = 0.4
"""The share of a GPU's memory that a measured batch may fill: two tasks may share the device."""

_PROBES = (2, 4)  # rows of the two measurements whose difference is what a row takes


@dataclass(frozen=True, kw_only=True)
class ExecutionConfig:
    """How to run the networks of an attack.

    Attributes:
        precision: "fp32"; "tf32", the tensor cores' 10-bit products on CUDA; "bf16", bfloat16 in the prior and the
            target, while latents, optimiser, losses, softmax and the sum of RGB images stay in float32.
        compile: Torch.compile of both networks (needs a C++ compiler, and about a minute before the first step).
        cuda_graphs: Record prior and target once per batch size and replay them.
        rows_per_batch: Images at once (None: as many as suit the device, found by measurement). The number of rows
            changes results by rounding only.
    """

    precision: Precision = "fp32"
    compile: bool = False
    cuda_graphs: bool = False
    rows_per_batch: int | None = None

    def __post_init__(self) -> None:
        if self.precision not in PRECISIONS:
            raise InputError(f"precision: expected one of {', '.join(PRECISIONS)}, got {self.precision!r}")
        if self.rows_per_batch is not None and self.rows_per_batch < 1:
            raise InputError(f"rows_per_batch: expected None or a number >= 1, got {self.rows_per_batch}")
        if self.compile and self.cuda_graphs:
            raise InputError("compile, cuda_graphs: expected at most one of them, got both")

    def check_device(self, device: torch.device) -> None:
        """Raises InputError for an option that has no effect on `device`."""
        if device.type != "cuda":
            if self.cuda_graphs:
                raise InputError(f"cuda_graphs: expected a CUDA device, got {device}")
            if self.precision == "tf32":
                raise InputError(f"precision: tf32 needs a CUDA device, got {device}")


@contextmanager
def arithmetic(precision: Precision) -> Generator[None]:
    """TensorFloat-32 products of matrices and convolutions on CUDA: on for "tf32", off otherwise; restored afterwards.

    torch allows it in convolutions by default, so single precision on a GPU is single precision only in here.
    """
    matrices, convolutions = torch.backends.cuda.matmul, torch.backends.cudnn
    before = matrices.allow_tf32, convolutions.allow_tf32
    try:
        matrices.allow_tf32 = convolutions.allow_tf32 = precision == "tf32"
        yield
    finally:
        matrices.allow_tf32, convolutions.allow_tf32 = before


@contextmanager
def repeatable_kernels() -> Generator[None]:
    """Convolutions by kernels that give the same numbers every time, in the arithmetic that is in force."""
    in_force = torch.backends.cudnn.allow_tf32  # which `flags` would set to True
    with torch.backends.cudnn.flags(enabled=True, benchmark=False, deterministic=True, allow_tf32=in_force):
        yield


class DeviceBatch:
    """How many rows go through the networks at once. Shared by all calls that use the same networks."""

    def __init__(self, rows: int, *, what: str = "batch") -> None:
        """rows: the first number to try; what: names the work in error messages."""
        if rows < 1:
            raise ValueError(f"rows: expected at least 1, got {rows}")
        self.rows = rows
        self.what = what
        self.halved = 0

    def run(self, function: Callable[[slice], T], total: int) -> list[T]:
        """[function(rows), ...] over consecutive slices of 0..total of about equal length, at most `rows` each.

        When a call runs out of device memory, `rows` is halved for good and the same rows are tried again, so
        `function` must not have kept anything. Raises InputError if a single row does not fit.
        """
        outputs, start = [], 0
        while start < total:
            remaining = total - start
            size = math.ceil(remaining / math.ceil(remaining / self.rows))
            fits, result = _attempt(function, slice(start, start + size))
            if not fits:
                self._back_off(size)
                continue
            outputs.append(result)
            start += size
        return outputs

    def _back_off(self, size: int) -> None:
        if size == 1:
            raise InputError(
                f"{self.what}: expected device memory for at least one image at a time, got {_free_memory()}; "
                "take a smaller prior or target, or another device"
            )
        self.rows = size // 2
        self.halved += 1
        if torch.cuda.is_available():
            torch.cuda.empty_cache()


def _attempt(function: Callable[[slice], T], rows: slice) -> tuple[bool, T | None]:
    # The exception keeps alive every tensor of the frames it went through: it must be gone before memory is freed.
    try:
        return True, function(rows)
    except torch.OutOfMemoryError:
        return False, None


def _free_memory() -> str:
    if not torch.cuda.is_available():
        return "less"
    free, total = torch.cuda.mem_get_info()
    return f"{free / 2**30:.1f} of {total / 2**30:.1f} GiB free"


def suitable_rows(probe: Callable[[int], object], device: torch.device, *, most: int) -> int:
    """How many of at most `most` rows suit the device, measured on `probe(rows)`, which computes with gradients.

    CUDA: the power of two that fits into `MEMORY_SHARE` of the device's memory, by the peaks of 2 and 4 rows; one if
    those do not fit.
    CPU: as many as keep the largest tensor kept for the backward pass within `CPU_TENSOR_BYTES`, a function of the
    shapes alone.
    """
    if most <= max(_PROBES):
        return most  # too few to measure, and too few to matter: the back-off is there
    if device.type == "cuda":
        return _rows_in_memory(probe, device, most=most)
    return max(1, min(most, int(CPU_TENSOR_BYTES // max(1.0, _largest_row(probe)))))


def _rows_in_memory(probe: Callable[[int], object], device: torch.device, *, most: int) -> int:
    few, more = _PROBES
    peaks = []
    for rows in (few, few, more):  # the first call chooses algorithms and allocates what stays
        torch.cuda.synchronize(device)
        torch.cuda.reset_peak_memory_stats(device)
        before = torch.cuda.memory_allocated(device)
        fits, _ = _attempt(lambda span: probe(span.stop), slice(0, rows))
        if not fits:
            torch.cuda.empty_cache()
            return 1
        torch.cuda.synchronize(device)
        peaks.append(torch.cuda.max_memory_allocated(device) - before)
    peaks = peaks[1:]
    per_row = max(1, (peaks[1] - peaks[0]) // (more - few))
    fixed = max(0, peaks[0] - few * per_row)
    available = MEMORY_SHARE * torch.cuda.get_device_properties(device).total_memory - fixed
    # Not what happens to be free, and a power of two: the same kind of device then cuts, and so rounds, alike.
    rows = max(1, int(available // per_row))
    return min(most, 1 << (rows.bit_length() - 1))


def _largest_row(probe: Callable[[int], object]) -> float:
    """Bytes that one row adds to the tensor, of those kept for a backward pass, that grows most with the rows.

    What does not grow, such as weights, is no part of a batch.
    """
    few, more = _PROBES
    sizes = [_kept_bytes(lambda rows=rows: probe(rows)) for rows in (few, more)]
    if len(sizes[0]) != len(sizes[1]):  # other algorithms for another number of rows
        return max(sizes[1], default=0) / more
    return max(((large - small) / (more - few) for small, large in zip(*sizes, strict=True)), default=0.0)


def _kept_bytes(run: Callable[[], object]) -> list[int]:
    """The size of every tensor that `run` keeps for its backward pass, in order."""
    sizes: list[int] = []

    def pack(tensor: Tensor) -> Tensor:
        sizes.append(tensor.numel() * tensor.element_size())
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        run()
    return sizes


def channels_last(network: Network) -> Network:
    """The network itself, its weights now in channels-last memory, which convolutions are fastest in."""
    return network.to(memory_format=torch.channels_last)  # ty: ignore[no-matching-overload]  # not in torch's stubs
