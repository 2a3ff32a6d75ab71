"""The reconstructions: the attack's final images, synthesised once and handed to every judge."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from smoothsweep.core.attacks.registry import load_network
from smoothsweep.core.attacks.shared.execution import Execution
from smoothsweep.core.data.images import ENLARGING, centre_crop, pack_images, resize, to_uint8
from smoothsweep.core.priors.registry import load_prior
from smoothsweep.tasks.attack import execution_of
from smoothsweep.tasks.context import Config, Inputs, Metrics, TaskContext
from smoothsweep.tasks.files import LEFT_IMAGES, load_tensors

BATCH = 64
NATIVE = "images.safetensors"
DECODED = "images_decoded.safetensors"


def synthesise(config: Config, inputs: Inputs, out: Path, context: TaskContext) -> Metrics:
    """Writes images.safetensors or, under protocol `paper`, one file per judge's input size; labels, best first.

    `clean` keeps what a thief could keep: 8-bit images [M, 3, R, R], reduced to `side` where given. `paper` hands on
    what the official judges get, the unclipped crop reduced to each size on its own (Plug-and-Play-Attacks,
    utils/stylegan.py create_image), as float16, whose steps are a tenth of those of 8 bits. `enlarging` names another
    way, of an attack whose official code has its own. `decoded`, a side in pixels, asks for images_decoded.safetensors
    beside them: float32, unclipped, and not enlarged by any attack's way.
    """
    execution = Execution(execution_of(config), context.device)
    tensors = load_tensors(inputs["attack"] / "reconstructions.safetensors")
    source = _left(inputs) if inputs.keys() == {"attack"} else _decoded(config, inputs, tensors["w"], execution)
    files, count = _files(config, source.side), len(tensors["labels"])
    with ExitStack() as open_files:
        puts = {
            name: open_files.enter_context(pack_images(out / name, tensors["labels"], form.side, form.dtype))
            for name, form in files.items()
        }
        with torch.no_grad():

            def keep(rows: slice) -> None:
                images = source.of(rows, context.device)
                for name, form in files.items():
                    for row, image in enumerate(form.shape(images).cpu().numpy(), rows.start):
                        puts[name](row, image)
                context.progress(rows.stop / count, f"image {rows.stop}/{count}")

            execution.forward_batch("synthesis", source, most=BATCH).run(keep, count)
    return {"num_images": count, "rows_halved": execution.batch_halvings}


@dataclass(frozen=True, kw_only=True)
class _Source:
    """Where the images come from.

    Attributes:
        side: Side in pixels, after the crop.
        of: (rows, device) -> float32 [B, 3, side, side].
    """

    side: int
    of: Callable[[slice, str], Tensor]


def _left(inputs: Inputs) -> _Source:
    """The images that the attack has left, which lie in a file that is mapped."""
    images = load_tensors(inputs["attack"] / LEFT_IMAGES)["images"]
    return _Source(side=images.shape[-1], of=lambda rows, device: images[rows].to(device).float())


def _decoded(config: Config, inputs: Inputs, w: Tensor, execution: Execution) -> _Source:
    """What the prior makes of latents w [M, ...], or the generator of the part whose latents the attack has left."""
    (name,) = inputs.keys() - {"attack"}
    decoder = load_prior(inputs[name]) if name == "prior" else load_network(inputs[name], "generator")
    crop = config.get("crop")
    synthesize = execution.synthesizer(decoder.to(execution.device), crop)

    def of(rows: slice, device: str) -> Tensor:
        images = synthesize(w[rows].to(device))
        return images if crop is None else centre_crop(images, crop)

    return _Source(side=decoder.resolution if crop is None else crop, of=of)


def decoded_reconstructions(folder: Path) -> dict[str, Tensor]:
    """{"images", "labels"} of this artifact as the attack's own evaluation has them before any judge's size.

    Float32 of the target's size where they were kept so (protocol `paper`), else the 8-bit images.
    """
    decoded_file = folder / DECODED
    return load_tensors(decoded_file if decoded_file.is_file() else folder / NATIVE)


def reconstructed_images(folder: Path, size: int | None) -> dict[str, Tensor]:
    """{"images", "labels"} of this artifact for a judge with inputs of `size` pixels (None: it resizes itself)."""
    images_file = folder / f"images_{size}.safetensors"
    return load_tensors(images_file if size is not None and images_file.is_file() else folder / NATIVE)


@dataclass(frozen=True, kw_only=True)
class _Form:
    """How a decoded batch [B, 3, R, R] becomes the content of a file: side in pixels, type, and the way there."""

    side: int
    dtype: torch.dtype
    shape: Callable[[Tensor], Tensor]


def _files(config: Config, native: int) -> dict[str, _Form]:
    def form(side: int, dtype: torch.dtype, resized: Callable[[Tensor, int], Tensor]) -> _Form:
        return _Form(side=side, dtype=dtype, shape=lambda images: resized(images, side).to(dtype))

    if config["protocol"] != "paper":
        side = config.get("side") or native
        return {NATIVE: _Form(side=side, dtype=torch.uint8, shape=lambda images: to_uint8(resize(images, side)))}
    enlarge = ENLARGING[config["enlarging"]] if "enlarging" in config else resize
    names = {f"images_{size}.safetensors" if size else NATIVE: size or native for size in config["sizes"]}
    files = {name: form(side, torch.float16, enlarge) for name, side in names.items()}
    decoded = config.get("decoded")
    return files if decoded is None else {**files, DECODED: form(decoded, torch.float32, resize)}
