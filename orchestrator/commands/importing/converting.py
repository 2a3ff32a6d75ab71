"""`smoothsweep import prior|target|judge|gan`: weights of others brought in, converted once, nothing of it executed."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from smoothsweep.core import screen
from smoothsweep.core.checks import require_count
from smoothsweep.core.errors import InputError
from smoothsweep.core.external.kinds import KINDS, apply_options, kind_made_of, kind_of, name_of
from smoothsweep.core.files import making_folder, write_file
from smoothsweep.core.priors.settings import RANDOM_FACE_LICENCE
from smoothsweep.orchestrator.commands.importing.describing import (
    TargetRequest,
    as_typed,
    card_lines,
    make_card,
    normalised,
    refuse_existing,
    test_on_data,
)
from smoothsweep.orchestrator.commands.importing.programs import import_made, import_program, refuse_layers
from smoothsweep.sweeps.imported import CARD, WEIGHTS, TargetCard

if TYPE_CHECKING:
    from smoothsweep.core.models.classifiers import Classifier
    from smoothsweep.core.models.official import ImportFacts

USUAL = 128  # pixels of a read-out of random-face
CLOSED = 24  # images of its closed form, the first ones; the training begins after them


def import_prior_file(file: Path, out: Path) -> int:
    """Convert an official StyleGAN2 pickle into a folder that a sweep can name. Returns the exit code."""
    from smoothsweep.core.priors.official import import_prior, write_imported_prior

    imported = import_prior(file)
    write_imported_prior(imported, out)
    config = imported.generator.config
    screen.out(f"{file.name}: StyleGAN2 of {config.resolution} pixels, {config.num_ws} w vectors of {config.w_dim}")
    screen.out(f"SHA-256 {imported.facts['sha256']}")
    screen.out(imported.facts["licence"])
    screen.out(f"in a sweep file:  prior: {{kind: folder, path: {out}}}")
    return 0


def import_random_face(
    package: Path | None, out: Path, resolutions: Sequence[int], *, judge: str | None, images: int
) -> int:
    """Write OUT/1024 and a folder for each read-out; those that are there stay. Returns the exit code.

    package: the wheel or folder, None: where it is found. judge: of the read-outs, as NAME=FILE. images: that they
    learn from. An interrupted import goes on where it ended. Raises InputError, one line.
    """
    from smoothsweep.core.priors.random_face import (
        VERSION,
        find_package,
        import_package,
        is_this_import,
        write_resolution,
    )

    face_judge = _face_judge(judge)
    require_count("--images", images, CLOSED + 1, 10_000)
    place = find_package(package)
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
    from smoothsweep.core.priors.random_face import write_resolution
    from smoothsweep.core.priors.random_face_readout import Effort, agreement, train_read_outs

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


def import_target_file(request: TargetRequest) -> int:
    """Convert a checkpoint into a folder that a sweep can name; tried on real images where the data are given.

    Raises InputError, one line, for a description that cannot be true, and for one that real images contradict.
    Returns the exit code.
    """
    kind = kind_of(request.file)
    model = apply_options(kind, request.options, request.file)
    if kind is not None and model is not None:
        model.check(name_of(request.file))
        return import_program(request, kind, model)
    if (made := kind_made_of(request.architecture)) is not None:
        return import_made(request, made)
    card = make_card(request, architecture=_named_architecture(request))
    refuse_existing(request.out)
    model, facts = read_checkpoint(request)
    weights = {name: value.contiguous() for name, value in model.state_dict().items()}
    tested = test_on_data(request, card, partial(_adopt, weights), facts.remarks)
    card = card.found(source=facts.source(request.file.name), **tested)
    write_folder(request.out, card, weights)
    tensors = f"{facts.tensors} tensors ({facts.wrapping})"
    screen.out(f"{request.file.name}: {card.architecture} of {card.num_classes} classes, {tensors}")
    for line in (*facts.remarks, *card_lines(card)):
        screen.out(line)
    folder = f"{{imported: {request.out}}}"
    screen.out(f"in a sweep file:  recipe: {folder}   or   judges: {{evaluator: {folder}}}")
    return 0


def read_checkpoint(request: TargetRequest) -> tuple[Classifier, ImportFacts]:
    """The network of a checkpoint, and what the file was. Raises InputError where it is another architecture's."""
    from smoothsweep.core.models.official import import_target

    return import_target(
        cast("Path", request.file),
        architecture=_named_architecture(request),
        num_classes=request.classes,
        transform_input=request.transform_input,
        protocol="paper",
        weights=request.weights,
    )


def check_description(request: TargetRequest) -> None:
    """Raise InputError for what can be seen to be wrong of a description before the file and the pictures are read."""
    kind = kind_of(request.file)
    if kind is not None:
        refuse_layers(request, KINDS[kind]())
    if kind is not None or kind_made_of(request.architecture) is not None:
        normalised(request)
    else:
        make_card(request, architecture=_named_architecture(request))


def _named_architecture(request: TargetRequest) -> str:
    """The network that a checkpoint holds. Raises InputError where it is not named, and for what a program is told."""
    if request.architecture is None:
        held = f"the network that {request.file.name} holds, e.g. resnet18"
        raise InputError(f"--architecture: expected {held}, got none")
    for option, value in request.given("answers", "leave_out", "random_answers"):
        raise InputError(f"{option}: expected none with a checkpoint, which gives logits, got {as_typed(value)}")
    return request.architecture


def import_judge_file(file: Path, out: Path) -> int:
    """Convert published weights of a face embedder into a file that a sweep can name. Returns the exit code.

    Raises InputError, one line, for a checkpoint that is none of theirs; nothing is written then.
    """
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


def import_gan_files(part: str, generator: Path, discriminator: Path | None, out: Path) -> int:
    """Convert the official checkpoints of a GAN into a folder that a sweep can name. Returns the exit code.

    Raises InputError, one line, for a tensor that is missing, left over, or of another shape; nothing is written then.
    """
    from smoothsweep.core.attacks.gan.official import official_networks
    from smoothsweep.core.attacks.kept_networks import save_network

    refuse_existing(out)
    networks: dict[str, Any] = official_networks(part, generator, discriminator)
    with making_folder(out) as draft:
        for name, network in networks.items():
            save_network(network, draft, name)
    for name, network in networks.items():
        weights = sum(tensor.numel() for tensor in network.parameters())
        screen.out(f"{name}: {type(network).__name__} of {network.config.resolution} pixels, {weights:,} weights")
    screen.out(f"in a sweep file:  attack: {{kind: ..., gan: {{imported: {out}}}}}   (part {part})")
    return 0


def write_folder(out: Path, card: TargetCard, weights: dict[str, Any]) -> None:
    """weights.safetensors and target.json, written beside `out` and renamed: nothing is ever half there."""
    from safetensors.torch import save

    with making_folder(out) as draft:
        write_file(draft / WEIGHTS, save(weights))
        write_file(draft / CARD, card.text)


def _adopt(weights: dict[str, Any], *options: Any, where: str) -> dict[str, Any]:
    from smoothsweep.tasks.imported import adopt

    return adopt(weights, *options, where=where)
