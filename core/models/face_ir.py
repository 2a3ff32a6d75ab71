"""IR-50 and IR-152 as face embedders: the networks of the low-resolution classifiers with face.evoLVe's output layer.

Parts are named as in `ZhaoJ9014/face.evoLVe`, backbone/model_irse.py (input size 112), so that its checkpoints load
strictly: 43.6 and 70.7 million parameters. IR-SE, with squeeze-and-excitation, is another network.
"""

from __future__ import annotations

from torch import Tensor
from torch.nn import functional

from smoothsweep.core.models.lowres import IR50, IR152, Trunk
from smoothsweep.core.models.mobilefacenet import to_template

SIDE = 112
WIDTH = 64  # channels of the first stage, an eighth of the features


class FaceIR(Trunk):
    """forward: images float [N, 3, S, S] in [-1, 1] in the tight face frame -> float32 [N, 8 width] of unit length.

    The images are put where the 112 x 112 five-point template has the frame, as face.evoLVe aligns faces, and reach the
    network in [-1, 1], red first (its config: mean and std 0.5). Its evaluations add the features of the mirrored
    image; these are of the image alone. units: of each stage.
    """

    def __init__(self, units: tuple[int, ...], *, width: int = WIDTH) -> None:
        super().__init__(units, side=SIDE, output=True, width=width)

    def forward(self, x: Tensor) -> Tensor:
        """Features [N, 8 width]."""
        return functional.normalize(super().forward(to_template(x)), dim=1)


def face_ir50(*, width: int = WIDTH) -> FaceIR:
    """IR-50: 512 features."""
    return FaceIR(IR50, width=width)


def face_ir152(*, width: int = WIDTH) -> FaceIR:
    """IR-152: 512 features."""
    return FaceIR(IR152, width=width)
