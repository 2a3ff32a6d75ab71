"""`smoothsweep import prior|target|judge|gan`, `weights stage`: what may be said of a file, and what must be."""

from __future__ import annotations

import argparse
from pathlib import Path

from smoothsweep.core.arguments import FolderToWrite, add_options, refuse_missing, request_of
from smoothsweep.core.attacks.training_settings import NETWORKS
from smoothsweep.core.errors import InputError
from smoothsweep.core.external.kinds import as_source
from smoothsweep.core.priors.settings import IMAGES, READ_OUT
from smoothsweep.orchestrator.commands.importing.requests import Reading, TargetRequest, add_kind_options, reading_of


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
    from smoothsweep.orchestrator.commands.importing.weights import import_prior_file, import_random_face

    out = options.out or _imported_folder(options, "priors")
    if str(options.file) == "random-face":
        sides, images = sorted(set(options.resolution or READ_OUT)), options.images
        images = IMAGES if images is None else images
        return import_random_face(options.package, out, sides, judge=options.judge, images=images)
    for name in ("package", "resolution", "judge", "images"):
        if getattr(options, name) is not None:
            raise InputError(f"import prior: {name}: expected it with random-face only, got {options.file}")
    return import_prior_file(options.file, out)


def _import_target(options: argparse.Namespace) -> int:
    refuse_missing("FILE", options.file)
    from smoothsweep.orchestrator.commands.importing.targets import import_target_file

    out = options.out or _imported_folder(options, "targets")
    return import_target_file(request_of(TargetRequest, options, out=out, **reading_of(options)))


def _import_judge(options: argparse.Namespace) -> int:
    refuse_missing("FILE", options.file)
    from smoothsweep.orchestrator.commands.importing.weights import import_judge_file

    folder = _imported_folder(options, "judges")
    return import_judge_file(options.file, options.out or folder.with_name(f"{folder.name}.safetensors"))


def _import_gan(options: argparse.Namespace) -> int:
    refuse_missing("FILE", options.file)
    refuse_missing("--discriminator", options.discriminator)
    from smoothsweep.orchestrator.commands.importing.weights import import_gan_files

    out = options.out or _imported_folder(options, "gans")
    return import_gan_files(options.part, options.file, options.discriminator, out)


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
    from smoothsweep.orchestrator.commands.importing.weights import stage_weights_of

    return stage_weights_of(options.sweeps, options.dir)
