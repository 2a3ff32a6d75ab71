"""The settings of torch that reach a number, as they are where a program is asked, for the process that answers."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass

import torch


@dataclass(frozen=True, kw_only=True)
class Numerics:
    """Settings of numerics, as torch names them; autocast: the dtype's name, None where it is off."""

    threads: int
    allow_tf32: bool
    cudnn_tf32: bool
    cudnn_benchmark: bool
    cudnn_deterministic: bool
    deterministic: bool
    precision: str
    autocast: str | None

    @staticmethod
    def here(device: torch.device) -> Numerics:
        """The settings of this thread."""
        on, cudnn = torch.is_autocast_enabled(device.type), torch.backends.cudnn
        return Numerics(
            threads=torch.get_num_threads(),
            allow_tf32=torch.backends.cuda.matmul.allow_tf32,
            cudnn_tf32=cudnn.allow_tf32,
            cudnn_benchmark=cudnn.benchmark,
            cudnn_deterministic=cudnn.deterministic,
            deterministic=torch.are_deterministic_algorithms_enabled(),
            precision=torch.get_float32_matmul_precision(),
            autocast=str(torch.get_autocast_dtype(device.type)).removeprefix("torch.") if on else None,
        )

    @contextmanager
    def applied(self, device: torch.device) -> Generator[None]:
        """Set them, from now on; autocast within the block alone."""
        cudnn = torch.backends.cudnn
        if torch.get_num_threads() != self.threads:
            torch.set_num_threads(self.threads)
        torch.set_float32_matmul_precision(self.precision)
        torch.backends.cuda.matmul.allow_tf32, cudnn.allow_tf32 = self.allow_tf32, self.cudnn_tf32
        cudnn.benchmark, cudnn.deterministic = self.cudnn_benchmark, self.cudnn_deterministic
        if torch.are_deterministic_algorithms_enabled() != self.deterministic:
            torch.use_deterministic_algorithms(self.deterministic)
        dtype = getattr(torch, self.autocast) if self.autocast else None
        with torch.autocast(device.type, dtype=dtype, enabled=dtype is not None):
            yield
