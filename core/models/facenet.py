"""FaceNet, the published judge of face similarity, around facenet-pytorch's network and a local weight file."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor, nn
from torch.nn import functional

SIZE = 160
FEATURES = 512


class FaceNet(nn.Module):
    """forward: faces float32 [N, 3, S, S] in [-1, 1], any S -> float32 [N, 512] of unit length.

    InceptionResnetV1 on images resized to 160 pixels (bilinear, antialiased). Squared distances of its features lie in
    [0, 4] and equal 2 - 2 cos. Source: Plug-and-Play-Attacks, metrics/distance_metrics.py and the attack's config.
    """

    def __init__(self) -> None:
        super().__init__()
        from facenet_pytorch import InceptionResnetV1  # brings in a face detector, which nothing else here needs

        self.network = InceptionResnetV1(pretrained=None)

    def forward(self, images: Tensor) -> Tensor:
        """Features [N, 512]."""
        if images.shape[-2:] != (SIZE, SIZE):
            images = functional.interpolate(images, size=(SIZE, SIZE), mode="bilinear", antialias=True)
        return self.network(images)


def facenet_state(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """A state dictionary of the published network, or of `FaceNet`, under the names of `FaceNet`.

    The classification layer of the published file (`logits`, over VGGFace2's 8,631 people) is no part of it.
    """
    names = {key: key.removeprefix("network.") for key in state}
    return {"network." + name: state[key] for key, name in names.items() if not name.startswith("logits.")}
