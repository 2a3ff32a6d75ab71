"""`smoothsweep import target`: a classifier brought in with a card that says how it is read, tried on real images.

A checkpoint is converted once; what answers and shows no layers is kept as it is, once it has been opened and tried.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any, cast

import torch
from safetensors.torch import save

from smoothsweep.core import screen
from smoothsweep.core.arguments import refuse_missing
from smoothsweep.core.checks import present
from smoothsweep.core.data.names import PUBLISHED_NAMES, PUBLISHED_SETS
from smoothsweep.core.errors import InputError
from smoothsweep.core.external.base import Answers, ForeignModel
from smoothsweep.core.external.kinds import (
    KINDS,
    Named,
    agree_to,
    apply_options,
    is_external,
    kind_made_of,
    kind_of,
    name_of,
    needs_consent,
)
from smoothsweep.core.external.model import try_external
from smoothsweep.core.files import making_folder, write_file
from smoothsweep.core.models.architectures import CUSTOMARY, check_image_size, fixed_image_size
from smoothsweep.core.models.classifiers import Classifier, usual_input
from smoothsweep.core.models.inference import Channels, Normalisation, Triple
from smoothsweep.core.models.official import ImportFacts, import_target
from smoothsweep.core.models.reading import ORDER_FLAG, MisreadModel
from smoothsweep.core.models.weight_files import file_sha256
from smoothsweep.core.readers.files import read_whole, why_unread
from smoothsweep.orchestrator.commands.requests import JudgeRequest, OfImported, Reading, TargetRequest
from smoothsweep.orchestrator.store.opening import open_store
from smoothsweep.sweeps.imported import CARD, CARD_VERSION, WEIGHTS, TargetCard, checked_card
from smoothsweep.sweeps.parts import LabelledData
from smoothsweep.tasks.context import TaskContext
from smoothsweep.tasks.data import prepare_private
from smoothsweep.tasks.files import load_images
from smoothsweep.tasks.imported import adopt, adopt_external

MOST_NAME_BYTES = 8 * 2**20
LABELLED = "labelled"  # data of the user's own
GIVES = {
    "gradients": "gradients come back through it, so that every attack on answers can be tried",
    "scores": "it gives scores and no gradients",
    "labels": "it gives the class alone",
}
SHOWN = {
    "nhwc": "[N, S, S, 3], channels last",
    "grey nchw": "[N, 1, S, S], the luminance 0.299 R + 0.587 G + 0.114 B",
    "grey nhwc": "[N, S, S, 1], the luminance 0.299 R + 0.587 G + 0.114 B",
}


def imported_folder(options: OfImported | JudgeRequest, kind: str) -> Path:
    if options.store.startswith("s3://"):
        raise InputError(f"--store {options.store}: expected a folder, or --out beside it: sweeps read it by its path")
    return open_store(options.store).root / "imported" / kind / options.file.stem


def refuse_existing(out: Path, what: str = "folder") -> None:
    """Raise InputError rather than write over an earlier import."""
    if out.exists():
        raise InputError(f"--out {out}: expected a new {what}, got one that exists; name another or remove it")


def import_target_file(request: TargetRequest) -> int:
    """Convert a classifier into a folder that a sweep can name; tried on real images where the data are given.

    Raises InputError, one line, for a description that cannot be true, and for one that real images contradict.
    Returns the exit code.
    """
    refuse_missing("FILE", request.file)
    request = replace(request, out=request.out or imported_folder(request, "targets"))
    kind, made = kind_of(request.file), kind_made_of(request.architecture)
    model = apply_options(kind, request.options, request.file)
    if model is not None:
        model.check(name_of(request.file))
        refuse_layers(request, model)
    elif made is None:
        return _import_checkpoint(request)
    else:
        _refuse_answers(request)
        model = KINDS[made]()
    refuse_existing(request.out)
    with tempfile.TemporaryDirectory() as place:
        return _import_program(request, present(kind or made, "kind"), model, Path(place) / model.file)


def _import_checkpoint(request: TargetRequest) -> int:
    card = make_card(request, architecture=_named_architecture(request))
    refuse_existing(request.out)
    model, facts = read_checkpoint(request)
    weights = {name: value.contiguous() for name, value in model.state_dict().items()}
    tested = test_on_data(request, card, partial(adopt, weights), facts.remarks)
    card = card.found(source=facts.source(request.file.name), **tested)
    with making_folder(request.out) as draft:
        write_file(draft / WEIGHTS, save(weights))
        write_file(draft / CARD, card.text)
    tensors = f"{facts.tensors} tensors ({facts.wrapping})"
    screen.out(f"{request.file.name}: {card.architecture} of {card.num_classes} classes, {tensors}")
    for line in (*facts.remarks, *card_lines(card)):
        screen.out(line)
    folder = f"{{imported: {request.out}}}"
    screen.out(f"in a sweep file:  recipe: {folder}   or   judges: {{evaluator: {folder}}}")
    return 0


def read_checkpoint(request: TargetRequest) -> tuple[Classifier, ImportFacts]:
    """The network of a checkpoint, and what the file was. Raises InputError where it is another architecture's."""
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
    _refuse_answers(request)
    return request.architecture


def _refuse_answers(request: TargetRequest) -> None:
    for option, value in request.given("answers", "leave_out", "random_answers"):
        raise InputError(f"{option}: expected none with a checkpoint, which gives logits, got {value}")


def _import_program(request: TargetRequest, kind: str, model: ForeignModel, place: Path) -> int:
    """Keep what answers and shows no layers with a card that says what it gives.

    place: for the file that stands for a model without one, or that a checkpoint is turned into. Raises InputError, one
    line, also for a file that does more than compute; nothing is written then.
    """
    answers = cast("Answers", request.answers or "logits")
    stated: dict[str, Any] = {"answers": answers, "access": "labels" if answers == "labels" else "scores"}
    stated |= {"leave_out": request.leave_out, "random_answers": request.random_answers}
    file, facts = place, None
    if isinstance(request.file, Named):
        make_card(request, architecture=kind, outside=stated)  # before anything of it is written, run or asked
        model.agree(request.out)
        write_file(file, model.describe(request.file.text, request.out))
    elif request.architecture is not None:
        facts = model.make(
            request.architecture,
            request.file,
            num_classes=request.classes,
            image_size=request.image_size,
            out=file,
            weights=request.weights,
        )
    else:
        file = request.file
    if needs_consent(kind):
        agree_to(file)  # the user who runs this command named it
        if model.computes_alone:
            screen.err(
                f"{request.file}: this system cannot isolate a program, which could therefore do what you can do"
            )
    opened = KINDS[kind].open(file, {"answers": answers}, torch.device("cpu"))
    card = make_card(request, architecture=kind, image_size=opened.side, outside=stated)
    abilities = try_external(
        opened,
        answers=answers,
        num_classes=card.num_classes,
        image_size=card.image_size,
        normalisation=Normalisation(mean=card.mean, std=card.std, channels=card.channels),
        leave_out=request.leave_out or (),
        random=bool(request.random_answers),
        where=str(request.file),
    )
    card = card.found(outside=stated | vars(abilities))
    remarks, name = () if facts is None else facts.remarks, request.file.name
    measured = test_on_data(request, card, partial(adopt_external, file), remarks)
    source = program_source(name, kind, card.num_classes, file_sha256(file)) if facts is None else facts.source(name)
    card = card.found(source=source, **measured)
    with making_folder(request.out) as draft:
        shutil.copyfile(file, draft / model.file)
        write_file(draft / CARD, card.text)
    _tell(request, model, card, [opened.remark, *remarks])
    return 0


def _tell(request: TargetRequest, model: ForeignModel, card: TargetCard, remarks: list[str]) -> None:
    name, found = request.file.name, present(card.outside, "outside")
    screen.out(f"{name}: {model.words} of {card.num_classes} classes; {GIVES[found.access]}")
    said = {
        f"it takes batches of {found.rows}: it is asked so many images at once": found.rows,
        f"it is shown images as {SHOWN.get(str(found.layout))}": found.layout,
        f"it is shown images as numbers of the type {found.dtype}": found.dtype,
        f"outputs left out, as nobody: {', '.join(map(str, found.leave_out or ()))}": found.leave_out,
        "it draws noise on purpose: its answers to one picture vary": found.random_answers,
    }
    for line in [*(line for line, holds in said.items() if holds), *filter(None, remarks)]:
        screen.out(f"{name}: {line}")
    if model.remark:
        screen.out(model.remark.format(name=name))
    for line in card_lines(card):
        screen.out(line)
    screen.out(f"in a sweep file:  recipe: {{imported: {request.out}}}")


def refuse_layers(request: TargetRequest, model: ForeignModel) -> None:
    """Raise InputError for what is said of a network of ours and says nothing of this kind of model."""
    for option, value in request.given("architecture", "transform_input", "weights"):
        raise InputError(f"{option}: expected none with {model.words}, which brings its own, got {value}")
    for option, value in request.given("mean", "std", "input_range", "channels") if model.sent_pictures else ():
        raise InputError(f"{option}: expected none with {model.words}, which is sent pictures, got {value}")


def make_card(
    request: TargetRequest,
    *,
    architecture: str,
    image_size: int | None = None,
    outside: Mapping[str, Any] | None = None,
) -> TargetCard:
    """The card as far as the request tells it. Raises InputError for what contradicts itself.

    image_size: what a file says, where nothing else was said; outside: how a model answers that is no network of ours.
    """
    size = image_size if request.image_size is None else request.image_size
    if size is None and not is_external(architecture):
        size = fixed_image_size(architecture) or CUSTOMARY.get(architecture)
    if size is None:
        what = KINDS[architecture].words.split(" ", 1)[1] if is_external(architecture) else architecture
        raise InputError(f"--image-size: expected the side in pixels that this {what} was trained at, got none")
    if not is_external(architecture):
        check_image_size(architecture, size)
    _check_data(request)
    names = None if request.class_names is None else _names_in(request.class_names)
    return checked_card(
        {
            "version": CARD_VERSION,
            "architecture": architecture,
            "num_classes": request.classes,
            "image_size": size,
            "transform_input": bool(request.transform_input),
            **asdict(normalised(request, architecture)),
            "outside": outside,
            "class_names": names,
            "data": request.data if request.data in (None, *PUBLISHED_SETS) else LABELLED,
            "defense": None if request.alpha is None else {"kind": "label_smoothing", "alpha": request.alpha},
            "stated_acc": request.stated_acc,
        },
        "import target",
    )


def normalised(reading: Reading, architecture: str | None = None) -> Normalisation:
    """How images are to be shown, as was said, else as the architecture usually wants them. Raises InputError."""
    if (reading.mean is None) != (reading.std is None):
        raise InputError("--mean, --std: expected both or neither, got one")
    if reading.input_range is not None and reading.mean is not None:
        raise InputError("--input-range: expected it or --mean and --std, got both")
    if reading.input_range is not None:
        wanted = Normalisation.of_range(*reading.input_range)
    elif reading.mean is not None and reading.std is not None:
        wanted = Normalisation(mean=cast("Triple", tuple(reading.mean)), std=cast("Triple", tuple(reading.std)))
    else:
        wanted = Normalisation() if architecture is None else usual_input(architecture)
    return wanted if reading.channels is None else replace(wanted, channels=cast("Channels", reading.channels))


def _check_data(request: TargetRequest) -> None:
    published = PUBLISHED_NAMES.get(request.data or "")
    if published is not None and published.classes[0] != request.classes:
        raise InputError(f"--classes: expected {published.classes[0]} for {request.data}, got {request.classes}")
    if published is None and request.data_path is not None:
        raise InputError("--data-path: expected only with --data and the name of a published set")
    if request.data is not None and published is None and not Path(request.data).expanduser().exists():
        raise InputError(
            f"--data {request.data}: expected a folder, a Parquet file or one of "
            f"{', '.join(PUBLISHED_SETS)}, got neither"
        )


def _names_in(path: Path) -> list[str]:
    """The lines of a file in their order, or JSON that numbers names; the card checks that there is one for each
    class."""
    try:
        text = read_whole(path.expanduser(), most_bytes=MOST_NAME_BYTES).decode("utf-8-sig")
        if text.lstrip()[:1] in ("{", "[") and path.suffix == ".json":
            return _names_by_number(json.loads(text))
    except InputError as error:
        raise InputError(f"--class-names {error}") from None
    except (OSError, ValueError, RecursionError) as error:
        expected = "expected a name per line, or JSON that numbers them"
        raise InputError(f"--class-names {path}: {expected}, got: {why_unread(error)}") from None
    names = [line.strip() for line in text.splitlines()]
    if "" in names:
        raise InputError(f"--class-names {path}: line {names.index('') + 1}: expected a name, got an empty line")
    return names


def _names_by_number(named: Any) -> list[str]:
    """The names of a list, of {name: number} or {number: name}. Raises ValueError unless each number is there once."""
    if isinstance(named, list):
        pairs = list(enumerate(named))
    elif all(isinstance(value, int) for value in named.values()):
        pairs = [(number, name) for name, number in named.items()]
    else:
        pairs = [(int(number), name) for number, name in named.items()]
    if sorted(number for number, _ in pairs) != list(range(len(pairs))) or not pairs:
        raise ValueError(f"numbers that are not 0 to {len(pairs) - 1}, each once")
    if not all(isinstance(name, str) and name.strip() for _, name in pairs):
        raise ValueError("a name that is no text")
    return [name.strip() for _, name in sorted(pairs)]


def program_source(file: str, kind: str, num_classes: int, sha256: str) -> dict[str, Any]:
    """The source of a program of whose training nothing is known. file: its name."""
    return {
        "file": file,
        "architecture": kind,
        "num_classes": num_classes,
        "protocol": "paper",
        "sha256": sha256,
        "wrapping": "program",
        "prefix": "",
    }


def test_on_data(
    request: TargetRequest, card: TargetCard, adopt: Callable[..., Mapping[str, Any]], remarks: Sequence[str] = ()
) -> dict[str, Any]:
    """What the data told: test accuracy and class names; nothing without data.

    adopt: (config, data, out, context, where=) -> metrics, as `tasks.imported` has it. remarks: on the weights, which a
    refusal repeats.
    Raises InputError if the card does not fit them.
    """
    if request.data is None or (card.data != LABELLED and request.data_path is None):
        return {}
    common: dict[str, Any] = {"size": card.image_size, "split_seed": 42, "on_corrupt": "refuse"}
    config = {"kind": card.data, "path": str(request.data_path), **common}
    if card.data == LABELLED:
        own = LabelledData(kind="labelled", path=request.data, bits=request.bits, **common)
        config = own.model_dump(exclude_none=True)
    with tempfile.TemporaryDirectory() as folder:
        place, out = Path(folder), Path(folder) / "adopted"
        context = TaskContext(work=place, device="cuda" if torch.cuda.is_available() else "cpu")
        prepare_private(config, {}, place, context)
        out.mkdir()
        reading = {**card.reading, "seed": 0, "protocol": "clean"}
        try:
            metrics = adopt(reading, place, out, context, where=f"import {request.file.name}")
        except MisreadModel as error:
            line = str(error)
            if error.class_names is not None:  # name the file that then holds the order of classes which fits
                file = request.out.with_name(f"{request.out.name}.class-names.txt")
                write_file(file, "".join(f"{name}\n" for name in error.class_names), parents=True)
                line = line.replace(ORDER_FLAG, f"--class-names {file}")
            raise InputError("; ".join([line, *remarks])) from None
        names = load_images(place, "test").names
    accuracies = {name: metrics[name] for name in ("test_acc", "test_acc_other_input") if name in metrics}
    unique = names if len(set(names)) == len(names) else None  # else only the data's order tells them apart
    return {"class_names": card.class_names or unique, **accuracies}


def card_lines(card: TargetCard) -> list[str]:
    """How the weights will be read, and what was measured."""
    mean, std = (" ".join(f"{value + 0.0:g}" for value in values) for values in (card.mean, card.std))  # no -0
    order = "the data's own order" if card.class_names is None else f"{card.class_names[0]}, {card.class_names[1]}, ..."
    is_sent = is_external(card.architecture) and KINDS[card.architecture].sent_pictures
    normalised = (
        "sent as pictures" if is_sent else f"mean {mean}, std {std}{'' if card.channels == 'rgb' else ', blue first'}"
    )
    lines = [f"images of {card.image_size} pixels, {normalised}; classes: {order}"]
    measured = {"test accuracy": card.test_acc, "test accuracy other input": card.test_acc_other_input}
    lines += [f"{name}: {value:.2%}" for name, value in measured.items() if value is not None]
    if card.test_acc is None:
        lines.append("test accuracy: not measured (give --data); every sweep measures it before it attacks")
    return lines
