"""What the user who brings a classifier in says of it, as a card; and what real images say to that."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from smoothsweep.core.data.names import PUBLISHED_NAMES, PUBLISHED_SETS
from smoothsweep.core.errors import InputError
from smoothsweep.core.external.kinds import KINDS, Source, is_external
from smoothsweep.core.files import write_file
from smoothsweep.core.readers.files import read_whole, why_unread
from smoothsweep.sweeps.data import Bits, LabelledData
from smoothsweep.sweeps.imported import CARD_VERSION, TargetCard, checked_card

if TYPE_CHECKING:
    from smoothsweep.core.models.inference import Channels, Normalisation, Triple
    from smoothsweep.core.models.reading import MisreadModel

MOST_NAME_BYTES = 8 * 2**20
LABELLED = "labelled"  # data of the user's own


@dataclass(frozen=True, kw_only=True)
class Reading:
    """What the owner of a classifier says of it; None where nothing was said.

    Attributes:
        stated_acc: The accuracy that was stated, in [0, 1].
        architecture: Needed for weights alone.
        answers: What a program says of an image, a word of `core.external.base.Answers`.
        bits: How many bits the images of its data use whose files have 16 or 32 for each value.
        weights: Which set of weights of a checkpoint is taken, where it has several.
        leave_out: Outputs of a program that are nobody.
        random_answers: Whether a program draws noise on purpose.
        options: Options that one kind of foreign model alone has, by the names of its fields.
    """

    architecture: str | None
    image_size: int | None
    transform_input: bool | None
    mean: list[float] | None
    std: list[float] | None
    input_range: list[float] | None
    class_names: Path | None
    stated_acc: float | None
    answers: str | None = None
    channels: str | None = None
    bits: Bits | None = None
    weights: str | None = None
    leave_out: list[int] | None = None
    random_answers: bool | None = None
    options: Mapping[str, Any] = field(default_factory=dict)

    def given(self, *names: str) -> Iterator[tuple[str, Any]]:
        """The options among these attributes that were given, as typed, each with its value."""
        for name in names:
            if (value := getattr(self, name)) is not None:
                yield "--test-acc" if name == "stated_acc" else f"--{name.replace('_', '-')}", value


@dataclass(frozen=True, kw_only=True)
class TargetRequest(Reading):
    """A classifier to bring in.

    Attributes:
        data: A published set's name, or the path of own data.
        data_path: Where the published set lies.
    """

    file: Source
    out: Path
    classes: int
    data: str | None
    data_path: Path | None
    alpha: float | None


def refuse_existing(out: Path, what: str = "folder") -> None:
    """Raise InputError rather than write over an earlier import."""
    if out.exists():
        raise InputError(f"--out {out}: expected a new {what}, got one that exists; name another or remove it")


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
    from smoothsweep.core.models.architectures import CUSTOMARY, check_image_size, fixed_image_size

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


def as_typed(value: object) -> str:
    """A flag's value as it stands on a command line: several numbers with spaces between."""
    return " ".join(f"{part:g}" for part in value) if isinstance(value, list) else str(value)


def normalised(reading: Reading, architecture: str | None = None) -> Normalisation:
    """How images are to be shown, as was said, else as the architecture usually wants them. Raises InputError."""
    from smoothsweep.core.models.classifiers import usual_input
    from smoothsweep.core.models.inference import Normalisation

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
        lines = text.splitlines()
    except InputError as error:
        raise InputError(f"--class-names {error}") from None
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(
            f"--class-names {path}: expected a name per line, or JSON that numbers them, got: {why_unread(error)}"
        ) from None
    names = [line.strip() for line in lines]
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
    import torch

    from smoothsweep.core.models.reading import ORDER_FLAG, MisreadModel
    from smoothsweep.tasks.context import TaskContext
    from smoothsweep.tasks.data import prepare_private
    from smoothsweep.tasks.files import load_images

    device = "cuda" if torch.cuda.is_available() else "cpu"
    common: dict[str, Any] = {"size": card.image_size, "split_seed": 42, "on_corrupt": "refuse"}
    if card.data == LABELLED:
        config = LabelledData(kind="labelled", path=request.data, bits=request.bits, **common).model_dump(
            exclude_none=True
        )
    else:
        config = {"kind": card.data, "path": str(request.data_path), **common}
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        context = TaskContext(work=place, device=device)
        prepare_private(config, {}, place, context)
        out = place / "adopted"
        out.mkdir()
        reading = {**card.reading, "seed": 0, "protocol": "clean"}
        try:
            metrics = adopt(reading, place, out, context, where=f"import {request.file.name}")
        except MisreadModel as error:
            written = _with_order_written(error, request.out, ORDER_FLAG)
            raise InputError("; ".join([str(written), *remarks])) from None
        names = load_images(place, "test").names
    accuracies = {name: metrics[name] for name in ("test_acc", "test_acc_other_input") if name in metrics}
    unique = names if len(set(names)) == len(names) else None  # else only the data's order tells them apart
    return {"class_names": card.class_names or unique, **accuracies}


def _with_order_written(error: MisreadModel, out: Path, flag: str) -> InputError:
    """The error, naming the file that now holds the order of classes which fits."""
    if error.class_names is None:
        return error
    file = out.with_name(f"{out.name}.class-names.txt")
    file.parent.mkdir(parents=True, exist_ok=True)
    write_file(file, "".join(f"{name}\n" for name in error.class_names))
    return InputError(str(error).replace(flag, f"--class-names {file}"))


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
