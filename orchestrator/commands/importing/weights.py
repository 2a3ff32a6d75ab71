"""`smoothsweep import prior|target|judge|gan` and `weights stage`: weights of others, converted once, none of it run.

What a classifier needs stands in `targets`.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

from annotated_types import Ge, Le
from safetensors.torch import save

from smoothsweep.core import screen
from smoothsweep.core.arguments import refuse_missing
from smoothsweep.core.attacks.gan_networks import official_networks
from smoothsweep.core.attacks.registry import save_network
from smoothsweep.core.declared import check_value
from smoothsweep.core.errors import InputError
from smoothsweep.core.files import making_folder, write_file
from smoothsweep.core.models.embedder_kinds import FACES
from smoothsweep.core.models.official import PUBLISHED, import_judge
from smoothsweep.core.models.weight_files import WEIGHT_FILES, stage_weights, weight_file, weight_folders
from smoothsweep.core.priors.official import import_prior, write_imported_prior
from smoothsweep.core.priors.random_face import (
    VERSION,
    Effort,
    agreement,
    find_package,
    import_package,
    is_this_import,
    read_facts,
    train_read_outs,
    write_resolution,
)
from smoothsweep.core.priors.settings import IMAGES, RANDOM_FACE_LICENCE, READ_OUT
from smoothsweep.orchestrator.commands.importing.targets import imported_folder, refuse_existing
from smoothsweep.orchestrator.commands.requests import GanRequest, JudgeRequest, PriorRequest, WeightsRequest
from smoothsweep.orchestrator.stages.graph import pretrained_architectures
from smoothsweep.sweeps.expand import LoadedSweep, as_inversion
from smoothsweep.sweeps.load import load_sweep
from smoothsweep.sweeps.schema import ToySweep

USUAL = 128  # pixels of a read-out of random-face
CLOSED = 24  # images of its closed form, the first ones; the training begins after them


def import_prior_file(options: PriorRequest) -> int:
    """Convert an official StyleGAN2 pickle into a folder that a sweep can name. Returns the exit code."""
    out = options.out or imported_folder(options, "priors")
    if str(options.file) == "random-face":
        return _import_random_face(options, out)
    for name in ("package", "resolution", "judge", "images"):
        if getattr(options, name) is not None:
            raise InputError(f"import prior: {name}: expected it with random-face only, got {options.file}")
    imported = import_prior(options.file)
    write_imported_prior(imported, out)
    config = imported.generator.config
    sizes = f"StyleGAN2 of {config.resolution} pixels, {config.num_ws} w vectors of {config.w_dim}"
    screen.out(f"{options.file.name}: {sizes}")
    screen.out(f"SHA-256 {imported.facts['sha256']}")
    screen.out(imported.facts["licence"])
    screen.out(f"in a sweep file:  prior: {{kind: folder, path: {out}}}")
    return 0


def _import_random_face(options: PriorRequest, out: Path) -> int:
    """Write OUT/1024 and a folder for each read-out; those that are there stay. Returns the exit code.

    An interrupted import goes on where it ended. Raises InputError, one line.
    """
    resolutions = sorted(set(options.resolution or READ_OUT))
    images = IMAGES if options.images is None else options.images
    face_judge = _face_judge(options.judge)
    check_value(Annotated[int, Ge(CLOSED + 1), Le(10_000)], images, "--images")
    place = find_package(options.package)
    network = import_package(place)
    screen.out(f"{place.name}: MobileStyleGAN of {network.resolution} pixels, package random-face {VERSION}")
    screen.out(RANDOM_FACE_LICENCE)
    side = network.resolution
    if not is_this_import(network, out / str(side)):
        write_resolution(network, out / str(side), {"resolution": side})
    missing = [size for size in resolutions if not (out / str(size)).exists()]
    if missing:
        _train_read_outs(network, missing, face_judge, images, out)
    for size in resolutions:
        facts = read_facts(out / str(size))
        made = facts.get("read_out") or {}
        line = f"{facts['resolution']} pixels: {made.get('psnr_db')} dB from the whole image"
        line += f" on {made.get('held_out')} latents"
        if (agreed := made.get("agreement")) is not None:
            line += f"; {agreed['judge']}: cosine {agreed['cosine_with_whole_image']} with it, "
            line += f"{agreed['cosine_with_other_images']} with others"
        screen.out(line)
    usual = min(resolutions, key=lambda size: abs(size - USUAL))
    screen.out(f"in a sweep file:  prior: {{kind: random_face, path: {out}, resolution: {usual}}}")
    return 0


def _train_read_outs(network: Any, missing: list[int], judge: tuple[str, Path] | None, images: int, out: Path) -> None:
    def told(done: int, total: int) -> None:
        if done % max(1, total // 8) == 0:
            screen.err(f"  {done} of {total} images")

    sizes = ", ".join(map(str, missing))
    screen.err(f"training the read-outs for {sizes} pixels on {images} images: some CPU minutes, once")
    effort = Effort(images=images, closed=CLOSED)
    read_outs, held = train_read_outs(network, missing, effort, told)
    for size, made in read_outs.items():
        read_out = {
            "psnr_db": round(made.psnr, 2),
            "psnr_db_closed_form": round(made.closed_psnr, 2),
            "trained": made.trained,
            "images": images,
            "held_out": effort.held_out,
            "agreement": None if judge is None else agreement(made.network, held, *judge),
        }
        write_resolution(made.network, out / str(size), {"resolution": size, "read_out": read_out})


def _face_judge(path: str | None) -> tuple[str, Path] | None:
    if path is None:
        return None
    name, _, weights = path.partition("=")
    if name not in FACES or not Path(weights).is_file():
        raise InputError(f"--judge: expected NAME=FILE with one of {', '.join(FACES)} and its weights, got {path}")
    return name, Path(weights)


def import_judge_file(options: JudgeRequest) -> int:
    """Convert published weights of a face embedder into a file that a sweep can name. Returns the exit code.

    Raises InputError, one line, for a checkpoint that is none of theirs; nothing is written then.
    """
    file = options.file
    refuse_missing("FILE", file)
    folder = imported_folder(options, "judges")
    out = options.out or folder.with_name(f"{folder.name}.safetensors")
    refuse_existing(out, "file")
    judge = import_judge(file)
    write_file(out, save({name: value.contiguous() for name, value in judge.state.items()}), parents=True)
    screen.out(f"{file.name}: {PUBLISHED[judge.name]}, {len(judge.state)} tensors")
    screen.out(f"SHA-256 {judge.sha256}")
    screen.out(f"in a sweep file:  judges: {{embedder: {{name: {judge.name}, weights: {out}}}}}")
    screen.out(f"for an audit:     --judge {judge.name}={out}")
    return 0


def import_gan(options: GanRequest) -> int:
    """Convert the official checkpoints of a GAN into a folder that a sweep can name. Returns the exit code.

    Raises InputError, one line, for a tensor that is missing, left over, or of another shape; nothing is written then.
    """
    refuse_missing("FILE", options.file)
    refuse_missing("--discriminator", options.discriminator)
    out = options.out or imported_folder(options, "gans")
    refuse_existing(out)
    networks: dict[str, Any] = official_networks(options.part, options.file, options.discriminator)
    with making_folder(out) as draft:
        for name, network in networks.items():
            save_network(network, draft, name)
    for name, network in networks.items():
        weights = sum(tensor.numel() for tensor in network.parameters())
        screen.out(f"{name}: {type(network).__name__} of {network.config.resolution} pixels, {weights:,} weights")
    screen.out(f"in a sweep file:  attack: {{kind: ..., gan: {{imported: {out}}}}}   (part {options.part})")
    return 0


def stage_weight_files(options: WeightsRequest) -> int:
    """Fetch and verify what the sweeps need (all known files if none is named); 1 if something could not be had."""
    names = needed_files(map(load_sweep, options.sweeps)) if options.sweeps else list(WEIGHT_FILES)
    if not names:
        screen.out("these sweeps need no published weights")
        return 0
    staged = stage_weights(names, options.dir or weight_folders()[0])
    for file in staged:
        entry = weight_file(file.name)
        screen.out(f"ok    {file.name:<14} {file.path}" if file.path else f"MISS  {file.name:<14} {file.reason}")
        if file.path:
            screen.out(f"      {'':<14} {entry.licence}")
    return 0 if all(file.path for file in staged) else 1


def needed_files(sweeps: Iterable[LoadedSweep]) -> list[str]:
    """Names of the weight files that the trials of these sweeps read: to start from, and to judge with."""
    names: list[str] = []
    for loaded in sweeps:
        if isinstance(loaded.sweep, ToySweep):
            continue
        for cell in [*loaded.cells, *loaded.choices]:
            settings = as_inversion(cell.settings)
            judged = [judge.staged for judge in settings.judges.built.values() if judge.staged is not None]
            names += [*pretrained_architectures(settings), *judged]
    return list(dict.fromkeys(names))
