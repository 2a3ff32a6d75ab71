"""`smoothsweep import prior|target|judge|gan` and `weights stage`: weights of others, converted once, none of it run.

What a classifier needs stands in `targets`, what may be said of it in `requests`.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from smoothsweep.core import screen
from smoothsweep.core.arguments import FolderToWrite, add_options, refuse_missing, request_of
from smoothsweep.core.attacks.training_settings import NETWORKS
from smoothsweep.core.checks import require_count
from smoothsweep.core.errors import InputError
from smoothsweep.core.external.kinds import as_source
from smoothsweep.core.files import making_folder, write_file
from smoothsweep.core.priors.settings import IMAGES, RANDOM_FACE_LICENCE, READ_OUT
from smoothsweep.orchestrator.commands.importing.requests import (
    Reading,
    TargetRequest,
    add_kind_options,
    reading_of,
    refuse_existing,
)

if TYPE_CHECKING:
    from smoothsweep.sweeps.loaded import LoadedSweep

USUAL = 128  # pixels of a read-out of random-face
CLOSED = 24  # images of its closed form, the first ones; the training begins after them


def add_import_commands(commands: argparse._SubParsersAction) -> None:
    """Adds `import` with its three things to a parser's commands."""
    things = commands.add_parser("import", help="bring official weights, or your own classifier, in safely")
    things = things.add_subparsers(required=True, metavar="prior|target|judge|gan")
    prior = things.add_parser(
        "prior",
        help="an official StyleGAN2 network pickle (ffhq.pkl), or random-face: the package's generator of faces; "
        "nothing of either is run",
    )
    prior.set_defaults(command=_import_prior)
    target = things.add_parser("target", help="a classifier: a checkpoint, or a program such as an ONNX file")
    target.add_argument(
        "--architecture",
        help="needed for a checkpoint, e.g. resnet152 or timm:vit_tiny_patch16_224; a program brings its own",
    )
    add_options(target, TargetRequest)
    reading = (
        "how it reads an image",
        "The weights do not say. Whatever is said here is tried on real images, now if there are any and before every "
        "attack: a classifier that does not recognise them is refused.",
    )
    add_options(target.add_argument_group(*reading), Reading)
    add_kind_options(target)
    target.set_defaults(command=_import_target)
    gan = things.add_parser("gan", help="the GAN of GMI, KED-MI, LOMMA or PLG-MI, from the official checkpoints")
    gan.add_argument("--part", required=True, choices=tuple(NETWORKS), help="which part of an attack it is")
    gan.add_argument("--discriminator", type=Path, metavar="FILE", help="of its discriminator, unless it is a plg_gan")
    gan.set_defaults(command=_import_gan)
    judge = things.add_parser(
        "judge",
        help="a published face embedder (FaceNet, MobileFaceNet, IR-50, IR-152): its "
        "checkpoint becomes an independent judge; which it is, the file says",
    )
    judge.set_defaults(command=_import_judge)
    for thing, folder in ((prior, "priors"), (target, "targets"), (judge, "judges"), (gan, "gans")):
        one_file = thing is judge
        thing.add_argument("file", type=as_source if thing is target else Path, metavar="FILE")
        thing.add_argument(
            "--out",
            type=Path,
            action="store" if one_file else FolderToWrite,
            metavar="FILE" if one_file else "DIR",
            help=f"default: STORE/imported/{folder}/NAME{'.safetensors' if one_file else ''}",
        )
        thing.add_argument("--store", default="store", metavar="DIR", help="the artifact store (default: ./store)")
    _of_random_face(prior)


def _of_random_face(prior: argparse.ArgumentParser) -> None:
    """What only `import prior random-face` is told."""
    group = prior.add_argument_group("for random-face only")
    group.add_argument(
        "package",
        type=Path,
        nargs="?",
        metavar="PATH",
        help="the wheel or a folder of its files (default: the installed package, else the wheel in "
        "SMOOTHSWEEP_WEIGHTS)",
    )
    group.add_argument(
        "--resolution",
        type=int,
        nargs="+",
        choices=READ_OUT,
        metavar="N",
        help=f"train a read-out for images of so many pixels: {', '.join(map(str, READ_OUT))} (default: all); 1024 "
        "needs none",
    )
    group.add_argument(
        "--images",
        type=int,
        metavar="N",
        help=f"images of 1024 pixels that the read-outs learn from, a CPU second or two each (default: {IMAGES})",
    )
    group.add_argument(
        "--judge",
        metavar="NAME=FILE",
        help="a face embedder, e.g. mobilefacenet_a and its weights: notes how far it takes a read-out's images for "
        "those of 1024 pixels",
    )


def _import_prior(options: argparse.Namespace) -> int:
    """Convert an official StyleGAN2 pickle into a folder that a sweep can name. Returns the exit code."""
    out = options.out or _imported_folder(options, "priors")
    if str(options.file) == "random-face":
        return _import_random_face(options, out)
    for name in ("package", "resolution", "judge", "images"):
        if getattr(options, name) is not None:
            raise InputError(f"import prior: {name}: expected it with random-face only, got {options.file}")
    from smoothsweep.core.priors.official import import_prior, write_imported_prior

    imported = import_prior(options.file)
    write_imported_prior(imported, out)
    config = imported.generator.config
    sizes = f"StyleGAN2 of {config.resolution} pixels, {config.num_ws} w vectors of {config.w_dim}"
    screen.out(f"{options.file.name}: {sizes}")
    screen.out(f"SHA-256 {imported.facts['sha256']}")
    screen.out(imported.facts["licence"])
    screen.out(f"in a sweep file:  prior: {{kind: folder, path: {out}}}")
    return 0


def _import_random_face(options: argparse.Namespace, out: Path) -> int:
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

    resolutions = sorted(set(options.resolution or READ_OUT))
    images = IMAGES if options.images is None else options.images
    face_judge = _face_judge(options.judge)
    require_count("--images", images, CLOSED + 1, 10_000)
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
        screen.out(_read_out(out / str(size)))
    usual = min(resolutions, key=lambda size: abs(size - USUAL))
    screen.out(f"in a sweep file:  prior: {{kind: random_face, path: {out}, resolution: {usual}}}")
    return 0


def _train_read_outs(network: Any, missing: list[int], judge: tuple[str, Path] | None, images: int, out: Path) -> None:
    from smoothsweep.core.priors.random_face import Effort, agreement, train_read_outs, write_resolution

    def told(done: int, total: int) -> None:
        if done % max(1, total // 8) == 0:
            screen.err(f"  {done} of {total} images")

    effort = Effort(images=images, closed=CLOSED)
    sizes = ", ".join(map(str, missing))
    screen.err(f"training the read-outs for {sizes} pixels on {effort.images} images: some CPU minutes, once")
    read_outs, held = train_read_outs(network, missing, effort, told)
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
        write_resolution(made.network, out / str(size), facts)


def _read_out(folder: Path) -> str:
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


def _face_judge(path: str | None) -> tuple[str, Path] | None:
    from smoothsweep.core.models.embedder_kinds import GENERAL, KINDS

    if path is None:
        return None
    name, _, weights = path.partition("=")
    if name not in KINDS or name in GENERAL or not Path(weights).is_file():
        faces = ", ".join(name for name in KINDS if name not in GENERAL)
        raise InputError(f"--judge: expected NAME=FILE with one of {faces} and its weights, got {path}")
    return name, Path(weights)


def _import_target(options: argparse.Namespace) -> int:
    refuse_missing("FILE", options.file)
    from smoothsweep.orchestrator.commands.importing.targets import import_target_file

    out = options.out or _imported_folder(options, "targets")
    return import_target_file(request_of(TargetRequest, options, out=out, **reading_of(options)))


def _import_judge(options: argparse.Namespace) -> int:
    """Convert published weights of a face embedder into a file that a sweep can name. Returns the exit code.

    Raises InputError, one line, for a checkpoint that is none of theirs; nothing is written then.
    """
    file = options.file
    refuse_missing("FILE", file)
    folder = _imported_folder(options, "judges")
    out = options.out or folder.with_name(f"{folder.name}.safetensors")
    from safetensors.torch import save

    from smoothsweep.core.models.official import PUBLISHED, import_judge

    refuse_existing(out, "file")
    judge = import_judge(file)
    write_file(out, save({name: value.contiguous() for name, value in judge.state.items()}), parents=True)
    screen.out(f"{file.name}: {PUBLISHED[judge.name]}, {len(judge.state)} tensors")
    screen.out(f"SHA-256 {judge.sha256}")
    screen.out(f"in a sweep file:  judges: {{embedder: {{name: {judge.name}, weights: {out}}}}}")
    screen.out(f"for an audit:     --judge {judge.name}={out}")
    return 0


def _import_gan(options: argparse.Namespace) -> int:
    """Convert the official checkpoints of a GAN into a folder that a sweep can name. Returns the exit code.

    Raises InputError, one line, for a tensor that is missing, left over, or of another shape; nothing is written then.
    """
    refuse_missing("FILE", options.file)
    refuse_missing("--discriminator", options.discriminator)
    from smoothsweep.core.attacks.gan_networks import official_networks
    from smoothsweep.core.attacks.kept_networks import save_network

    out = options.out or _imported_folder(options, "gans")
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


def _imported_folder(options: argparse.Namespace, kind: str) -> Path:
    from smoothsweep.orchestrator.store.opening import open_store

    if options.store.startswith("s3://"):
        raise InputError(f"--store {options.store}: expected a folder, or --out beside it: sweeps read it by its path")
    return open_store(options.store).root / "imported" / kind / options.file.stem


def add_weights_commands(commands: argparse._SubParsersAction) -> None:
    """`smoothsweep weights stage`."""
    stage = (
        commands.add_parser("weights", help="published weight files")
        .add_subparsers(required=True, metavar="stage")
        .add_parser("stage", help="fetch and verify what sweeps need, before they run; say what could not be had")
    )
    stage.add_argument("sweeps", type=Path, nargs="*", metavar="SWEEP.yaml", help="default: every file we know of")
    stage.add_argument(
        "--dir", type=Path, metavar="DIR", help="where to put them (default: SMOOTHSWEEP_WEIGHTS or torch hub's cache)"
    )
    stage.set_defaults(command=_stage_weights)


def _stage_weights(options: argparse.Namespace) -> int:
    """Fetch and verify what the sweeps need (all known files if none is named); 1 if something could not be had."""
    from smoothsweep.core.models.weight_files import WEIGHT_FILES, stage_weights, weight_file, weight_folders
    from smoothsweep.sweeps.load import load_sweep

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
    from smoothsweep.orchestrator.stages.weights import pretrained_architectures
    from smoothsweep.sweeps.expand import expand
    from smoothsweep.sweeps.loaded import as_inversion
    from smoothsweep.sweeps.recipes import every_choice
    from smoothsweep.sweeps.schema import ToySweep

    names: list[str] = []
    for loaded in sweeps:
        if isinstance(loaded.sweep, ToySweep):
            continue
        for cell in [*expand(loaded), *(every_choice(loaded) if loaded.sweep.search else [])]:
            settings = as_inversion(cell.settings)
            judged = [judge.staged for judge in settings.judges.built.values() if judge.staged is not None]
            names += [*pretrained_architectures(settings), *judged]
    return list(dict.fromkeys(names))
