"""`smoothsweep import prior random-face`: the package's generator, and its read-outs for fewer pixels."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from smoothsweep.core import screen
from smoothsweep.core.checks import require_count
from smoothsweep.core.errors import InputError
from smoothsweep.core.priors.random_face_settings import RANDOM_FACE_LICENCE

NAME = "random-face"
USUAL = 128  # pixels
CLOSED = 24
"""Images of the closed form, the first ones; the training begins after them."""


@dataclass(frozen=True, kw_only=True)
class RandomFaceRequest:
    """What `smoothsweep import prior random-face` was asked for.

    Attributes:
        package: The wheel or folder, None: where it is found.
        resolutions: Resolutions that get a read-out, in pixels.
        judge: The judge of the read-outs as NAME=FILE, or None.
        images: Images that the read-outs learn from.
    """

    package: Path | None
    out: Path
    resolutions: tuple[int, ...]
    judge: str | None
    images: int


def import_random_face(request: RandomFaceRequest) -> int:
    """Write OUT/1024 and a folder for each read-out; those that are there stay. Returns the exit code.

    An interrupted import goes on where it ended. Raises InputError, one line.
    """
    from smoothsweep.core.priors.random_face import (
        VERSION,
        find_package,
        import_package,
        is_this_import,
        write_resolution,
    )

    judge = _judge(request.judge)
    require_count("--images", request.images, CLOSED + 1, 10_000)
    place = find_package(request.package)
    network = import_package(place)
    screen.out(f"{place.name}: MobileStyleGAN of {network.resolution} pixels, package random-face {VERSION}")
    screen.out(RANDOM_FACE_LICENCE)
    side = network.resolution
    if not is_this_import(network, request.out / str(side)):
        write_resolution(network, request.out / str(side), {"resolution": side})
    missing = [size for size in request.resolutions if not (request.out / str(size)).exists()]
    if missing:
        _train(network, missing, judge, request)
    for size in request.resolutions:
        screen.out(_summary(request.out / str(size)))
    usual = min(request.resolutions, key=lambda size: abs(size - USUAL))
    screen.out(f"in a sweep file:  prior: {{kind: random_face, path: {request.out}, resolution: {usual}}}")
    return 0


def _train(network: Any, missing: list[int], judge: tuple[str, Path] | None, request: RandomFaceRequest) -> None:
    from smoothsweep.core.priors.random_face import write_resolution
    from smoothsweep.core.priors.random_face_readout import Effort, agreement, train_read_outs

    effort = Effort(images=request.images, closed=CLOSED)
    sizes = ", ".join(map(str, missing))
    screen.err(f"training the read-outs for {sizes} pixels on {effort.images} images: some CPU minutes, once")
    read_outs, held = train_read_outs(network, missing, effort, _on_image)
    for size, made in read_outs.items():
        facts = {
            "resolution": size,
            "read_out": {
                "psnr_db": round(made.psnr, 2),
                "psnr_db_closed_form": round(made.closed_psnr, 2),
                "trained": made.trained,
                "images": effort.images,
                "held_out": effort.held_out,
                "agreement": None if judge is None else agreement(made.network, held, *judge),
            },
        }
        write_resolution(made.network, request.out / str(size), facts)


def _on_image(done: int, total: int) -> None:
    if done % max(1, total // 8) == 0:
        screen.err(f"  {done} of {total} images")


def _summary(folder: Path) -> str:
    from smoothsweep.core.priors.random_face import read_facts

    facts = read_facts(folder)
    made = facts.get("read_out") or {}
    line = (
        f"{facts['resolution']} pixels: {made.get('psnr_db')} dB from the whole image on {made.get('held_out')} latents"
    )
    if (agreement := made.get("agreement")) is not None:
        line += (
            f"; {agreement['judge']}: cosine {agreement['cosine_with_whole_image']} with it, "
            f"{agreement['cosine_with_other_images']} with others"
        )
    return line


def _judge(path: str | None) -> tuple[str, Path] | None:
    from smoothsweep.core.models.embedder_kinds import GENERAL, KINDS

    if path is None:
        return None
    name, _, weights = path.partition("=")
    if name not in KINDS or name in GENERAL or not Path(weights).is_file():
        faces = ", ".join(name for name in KINDS if name not in GENERAL)
        raise InputError(f"--judge: expected NAME=FILE with one of {faces} and its weights, got {path}")
    return name, Path(weights)
