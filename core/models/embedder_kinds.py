"""Networks whose features judge reconstructions, by name: what is known of each without loading it, or torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from smoothsweep.core.named_code import load_named

_HERE = "smoothsweep.core.models."


@dataclass(frozen=True, kw_only=True)
class EmbedderKind:
    """One network.

    Attributes:
        network: 'module:function' of core/models that makes it: forward(images float [N, 3, S, S] in [-1, 1], any S) ->
            float32 [N, D] of unit length.
        state: 'module:function' from its published state dict to ours, of those whose file can be staged, under its own
            name (`core.models.weight_files`).
        shipped: Its weights beside this file.
        origin: Where else weights come from.
        published: What the publisher of its weights calls it, of those that `smoothsweep import judge` knows.
        size: Side in pixels at which it is to get images as they are decoded, 0 for any.
        of_paper: What the paper calls it, of the one that its tables were made with.
        general: Whether it learnt on pictures of anything, not on faces.
        rendered: Whether it learnt on faces that the program draws.
        sizes: Sizes of its layers, where they are not the published ones.
        cites: Its sources, as `core.citations` has them.
    """

    network: str
    state: str | None = None
    shipped: str | None = None
    origin: str = ""
    published: str | None = None
    size: int = 0
    of_paper: str | None = None
    general: bool = False
    rendered: bool = False
    sizes: Mapping[str, int] = field(default_factory=dict)
    cites: tuple[str, ...] = ()

    @property
    def shipped_file(self) -> Path | None:
        """Its weights that come with smoothsweep, None without."""
        return None if self.shipped is None else Path(__file__).parent / "weights" / self.shipped

    @property
    def is_staged(self) -> bool:
        """Whether `smoothsweep weights stage` brings its weights."""
        return self.state is not None

    def make(self) -> Any:
        """The network, of no particular weights. Loads torch."""
        return load_named(self.network, _HERE)(**self.sizes)

    def our_state(self, state: Any) -> Any:
        """A published state dict under our names; one that is ours as it is."""
        return state if self.state is None else load_named(self.state, _HERE)(state)


KINDS: dict[str, EmbedderKind] = {
    "synthetic": EmbedderKind(
        network="embedders:SyntheticEmbedder",
        shipped="synthetic_embedder.safetensors",
        origin="as `python -m tools.weights.train_embedder` writes them",
        rendered=True,
    ),
    "facenet": EmbedderKind(
        network="embedders:FaceNet",
        state="embedders:facenet_state",
        published="FaceNet (facenet-pytorch)",
        size=160,
        of_paper="FaceNet",
        cites=("schroff2015facenet",),
    ),
    "mobilefacenet_a": EmbedderKind(
        network="embedders:MobileFaceNetA",
        origin="the state dict of github.com/Xiaoccer/MobileFaceNet_Pytorch, model/best/068.ckpt",
        published="MobileFaceNet (Xiaoccer/MobileFaceNet_Pytorch)",
        cites=("chen2018mobilefacenets",),
    ),
    "mobilefacenet_b": EmbedderKind(
        network="embedders:MobileFaceNetB",
        origin="the state dict of github.com/foamliu/MobileFaceNet, weights/mobilefacenet.pt",
        published="MobileFaceNet (foamliu/MobileFaceNet)",
        cites=("chen2018mobilefacenets",),
    ),
    "ir50": EmbedderKind(
        network="embedders:face_ir50",
        origin="what `smoothsweep import judge` makes of face.evoLVe's IR-50",
        published="IR-50 (face.evoLVe)",
        cites=("deng2019arcface",),
    ),
    "ir152": EmbedderKind(
        network="embedders:face_ir152",
        origin="what `smoothsweep import judge` makes of face.evoLVe's IR-152",
        published="IR-152 (face.evoLVe)",
        cites=("deng2019arcface",),
    ),
    "swag_vit_b_16": EmbedderKind(
        network="embedders:SwagViT",
        state="embedders:swag_state",
        general=True,
        cites=("singh2022revisiting",),
    ),
}

FACES = tuple(name for name, kind in KINDS.items() if not kind.general)
GENERAL = tuple(name for name, kind in KINDS.items() if kind.general)

if TYPE_CHECKING:
    FaceNetwork = GeneralNetwork = str
else:
    FaceNetwork, GeneralNetwork = Literal[FACES], Literal[GENERAL]
"""The types of a judge's `name`: one of those known."""
