"""`smoothsweep import prior|target|judge|gan`: weights of others brought in, converted once, nothing of it executed."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any, cast

from smoothsweep.core import screen
from smoothsweep.core.errors import InputError
from smoothsweep.core.external.kinds import KINDS, apply_options, kind_made_of, kind_of, name_of
from smoothsweep.core.files import making_folder, write_file
from smoothsweep.orchestrator.commands.importing.describing import (
    TargetRequest,
    card_lines,
    make_card,
    normalised,
    refuse_existing,
    test_on_data,
)
from smoothsweep.orchestrator.commands.importing.programs import import_made, import_program, refuse_layers
from smoothsweep.sweeps.imported import CARD, WEIGHTS, TargetCard


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
    from smoothsweep.core.models.official_targets import import_target

    card = make_card(request, architecture=_named_architecture(request))
    refuse_existing(request.out)
    model, facts = import_target(
        cast("Path", request.file),
        architecture=card.architecture,
        num_classes=card.num_classes,
        transform_input=request.transform_input,
        protocol="paper",
        weights=request.weights,
    )
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
    if request.answers is not None:
        raise InputError(f"--answers: expected none with a checkpoint, which gives logits, got {request.answers}")
    return request.architecture


def import_judge_file(file: Path, out: Path) -> int:
    """Convert published weights of a face embedder into a file that a sweep can name. Returns the exit code.

    Raises InputError, one line, for a checkpoint that is none of theirs; nothing is written then.
    """
    from safetensors.torch import save

    from smoothsweep.core.models.official_judges import PUBLISHED, import_judge

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
