"""The sizes of a case of `benchmarks.attack_full`, and its networks, whose weights are random."""

from __future__ import annotations

from dataclasses import dataclass

import torchvision
from torch import nn

from benchmarks import yardstick
from smoothsweep.core.models.small import SmallResNet

CLASSES = 50


@dataclass(frozen=True, kw_only=True)
class Case:
    """pixels: side of prior and target; batch: the paper's 25; epochs: of the knowledge extraction."""

    pixels: int
    target: str = "resnet_small"
    steps: int = 25
    batch: int = 25
    candidates: int = 25
    selected: int = 6
    pool: int = 50
    epochs: int = 40
    target_class: int = 3

    @property
    def crop(self) -> int:
        """The side of the prior's centre that the attack is shown."""
        return self.pixels * 800 // 1024

    def side(self, side: int) -> int:
        """A side of the paper (299, 160) at this benchmark's scale."""
        return round(self.pixels * side / 224)


def target_of(case: Case) -> nn.Module:
    """The network under attack."""
    if case.target == "resnet18":
        return torchvision.models.resnet18(weights=None, num_classes=CLASSES).eval()
    return nn.Sequential(SmallResNet(), nn.Linear(128, CLASSES)).eval()


def small_network(case: Case) -> nn.Module:
    """A stand-in for judges and surrogate: images -> 64 features, at one side half of the target's operations."""
    return SmallResNet(16, (32, 64), 64) if case.target == "resnet_small" else _ResNet10()


class _ResNet10(torchvision.models.ResNet):
    def __init__(self) -> None:
        super().__init__(torchvision.models.resnet.BasicBlock, [1, 1, 1, 1], num_classes=64)


def judges_of(case: Case) -> yardstick.JudgeNetworks:
    """The evaluator, and the networks of FID and of faces."""
    side = case.side(299)
    return yardstick.JudgeNetworks(
        evaluator=small_network(case).eval(),
        head=nn.Linear(64, CLASSES),
        evaluator_size=side,
        fid=small_network(case).eval(),
        fid_size=side,
        face=small_network(case).eval(),
        face_size=case.side(160),
    )
