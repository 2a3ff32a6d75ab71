"""The Inception network of FID: TensorFlow's of 2015 with 2,048 pooled features, as pytorch-fid ported it.

Its blocks are torchvision's but for one branch: averages do not count the padding, and the last block takes a maximum
where the others average. torch-fidelity has the same network and weights, but reads the file by unpickling and may
download it, so the network is built here and that package serves as the reference in the tests.
"""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor, nn
from torch.nn import functional
from torchvision.models import Inception3, inception

SIDE = 299  # pixels


def _mean3(x: Tensor) -> Tensor:
    return functional.avg_pool2d(x, 3, stride=1, padding=1, count_include_pad=False)


def _max3(x: Tensor) -> Tensor:
    return functional.max_pool2d(x, 3, stride=1, padding=1)


class _BlockA(inception.InceptionA):
    def _forward(self, x: Tensor) -> list[Tensor]:
        five = self.branch5x5_2(self.branch5x5_1(x))
        double = self.branch3x3dbl_3(self.branch3x3dbl_2(self.branch3x3dbl_1(x)))
        return [self.branch1x1(x), five, double, self.branch_pool(_mean3(x))]


class _BlockC(inception.InceptionC):
    def _forward(self, x: Tensor) -> list[Tensor]:
        seven = self.branch7x7_3(self.branch7x7_2(self.branch7x7_1(x)))
        double = self.branch7x7dbl_3(self.branch7x7dbl_2(self.branch7x7dbl_1(x)))
        double = self.branch7x7dbl_5(self.branch7x7dbl_4(double))
        return [self.branch1x1(x), seven, double, self.branch_pool(_mean3(x))]


class _BlockE(inception.InceptionE):
    pool: Callable[[Tensor], Tensor] = staticmethod(_mean3)

    def _forward(self, x: Tensor) -> list[Tensor]:
        three = self.branch3x3_1(x)
        double = self.branch3x3dbl_2(self.branch3x3dbl_1(x))
        return [
            self.branch1x1(x),
            self.branch3x3_2a(three),
            self.branch3x3_2b(three),
            self.branch3x3dbl_3a(double),
            self.branch3x3dbl_3b(double),
            self.branch_pool(self.pool(x)),
        ]


class _LastBlock(_BlockE):
    pool = staticmethod(_max3)


_BLOCKS: list[Callable[..., nn.Module]] = [
    inception.BasicConv2d,
    _BlockA,
    inception.InceptionB,
    _BlockC,
    inception.InceptionD,
    _BlockE,
    inception.InceptionAux,
]


class FidInception(Inception3):
    """forward: float32 [N, 3, 299, 299] as `fid_input` makes them -> pooled features float32 [N, 2048].

    The state dictionary has the published names, the unused classification layer of 1,008 outputs included.
    Source: mseitzer/pytorch-fid, src/pytorch_fid/inception.py.
    """

    def __init__(self) -> None:
        super().__init__(num_classes=1008, aux_logits=False, init_weights=False, inception_blocks=_BLOCKS)
        self.Mixed_7c = _LastBlock(2048)

    def forward(self, x: Tensor) -> Tensor:  # ty: ignore[incompatible-method-override]  # no auxiliary head
        """Features [N, 2048]."""
        if x.shape[1:] != (3, SIDE, SIDE):
            raise ValueError(f"expected images [N, 3, {SIDE}, {SIDE}], got {list(x.shape)}")
        *steps, _dropout, _classes = self.children()  # in the order of the forward pass, poolings included
        for step in steps:
            x = step(x)
        return x.flatten(1)
