"""The processes that train one network together: which rows of a batch each takes, and how their gradients meet.

Gradients are averaged by one all-reduce behind the backward pass, which is what DistributedDataParallel does meanwhile.
Its hooks are made for one forward and one backward pass of a step: a gradient penalty differentiates twice, and a
discriminator is run several times for one backward pass, where broadcast buffers (the vectors of a spectral norm) would
be written between its passes. Here none of that matters: those vectors follow from the weights, alike on all.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import torch
import torch.distributed
from torch import Tensor, nn


@dataclass(frozen=True, kw_only=True)
class Team:
    """This process among `world_size`, inside an initialised process group unless it is alone.

    synchronised: whether batch norm sees the batch of all (torch can on CUDA alone); else each rank sees its own rows.
    """

    rank: int = 0
    world_size: int = 1
    synchronised: bool = False

    def share(self, rows: Tensor) -> Tensor:
        """This rank's rows of a batch: every world_size-th."""
        return rows if self.world_size == 1 else rows[self.rank :: self.world_size]

    @property
    def rows(self) -> slice:
        """As `share`, for what is indexed otherwise."""
        return slice(self.rank, None, self.world_size)

    def join(self, network: nn.Module) -> nn.Module:
        """The network as this team trains it."""
        return nn.SyncBatchNorm.convert_sync_batchnorm(network) if self.synchronised else network

    def average(self, parameters: Iterable[Tensor]) -> None:
        """Replace every gradient by its mean over the ranks. A collective."""
        gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
        if self.world_size == 1 or not gradients:
            return
        together = torch.cat([gradient.flatten() for gradient in gradients])
        torch.distributed.all_reduce(together)
        together /= self.world_size
        for gradient, mean in zip(gradients, together.split([g.numel() for g in gradients]), strict=True):
            gradient.copy_(mean.view_as(gradient))

    def mean(self, value: Tensor) -> Tensor:
        """The mean of a detached value over the ranks. A collective."""
        return self.sum(value) / self.world_size if self.world_size > 1 else value

    def sum(self, value: Tensor) -> Tensor:
        """The sum of a value over the ranks. A collective."""
        if self.world_size > 1:
            value = value.detach().clone()
            torch.distributed.all_reduce(value)
        return value


ALONE = Team()


def descend(optimizer: torch.optim.Optimizer, loss: Tensor, team: Team = ALONE) -> None:
    """One step down the mean of the ranks' losses."""
    optimizer.zero_grad()
    loss.backward()
    team.average(parameter for group in optimizer.param_groups for parameter in group["params"])
    optimizer.step()
