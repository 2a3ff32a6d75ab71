"""What every command is told: a request for each, whose fields are its options (`core.arguments.option`).

The options of `audit` stand in `audit.request`. Nothing here loads what is slow: `--help` answers at once.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from math import nan
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, get_args

from smoothsweep.core.arguments import BITS, OUT, add_options, option, request_of
from smoothsweep.core.attacks.training_settings import NETWORKS
from smoothsweep.core.data.names import PUBLISHED_SETS
from smoothsweep.core.errors import InputError
from smoothsweep.core.external.base import Answers
from smoothsweep.core.external.kinds import KINDS, Source, as_source
from smoothsweep.core.priors.settings import IMAGES, READ_OUT

if TYPE_CHECKING:
    from smoothsweep.sweeps.parts import Bits

GRACE_S = 300
_ORDER = ("R", "G", "B")
_NAMES = "a sweep's name, SWEEP:RECIPE with the report's name of it, or a trial's id"


def amount(
    text: str,
    *,
    least: float = 0.0,
    most: float = sys.float_info.max,
    expected: str = "a finite number of at least 0",
) -> float:
    """A number within bounds, as the user wrote it. Raises InputError for anything else, as every reader here."""
    try:
        value = float(text)
    except ValueError:
        value = nan
    if not least <= value <= most:
        raise InputError(f"expected {expected}, got {text!r}")
    return value


def points(text: str) -> float:
    """Percentage points as the user wrote them, as a fraction."""
    return amount(text, least=sys.float_info.min, most=100, expected="percentage points above 0 and at most 100") / 100


def whole(least: int) -> Callable[[str], int]:
    """Reads whole numbers of at least so much."""

    def read(text: str) -> int:
        if not re.fullmatch("[0-9]{1,9}", text) or int(text) < least:
            raise InputError(f"expected a whole number of at least {least}, got {text!r}")
        return int(text)

    return read


def text_like(pattern: str, expected: str) -> Callable[[str], str]:
    """Takes text that the pattern has, as it is."""

    def read(text: str) -> str:
        if not re.fullmatch(pattern, text):
            raise InputError(f"expected {expected}, got {text!r}")
        return text

    return read


def some_of(*known: str) -> Callable[[str], tuple[str, ...]]:
    """Reads `pdf,svg` as a tuple in the order of `known`; `none` alone is empty."""

    def read(text: str) -> tuple[str, ...]:
        names = [] if text == "none" else text.split(",")
        if not set(names) <= set(known):
            raise InputError(f"expected some of {','.join(known)}, or none, got {text!r}")
        if len(set(names)) < len(names):
            raise InputError(f"expected each format once, got {text!r}")
        return tuple(name for name in known if name in names)

    return read


def true_or_false(text: str) -> bool:
    if text not in ("true", "false"):
        raise InputError(f"expected true or false, got {text!r}")
    return text == "true"


WORD = text_like(r"[^\s\x00-\x1f]+", "one word")
PRICE = "price of a device-hour, e.g. 4.1: shows what is to be spent"


@dataclass(frozen=True, kw_only=True)
class OfStore:
    store: str = option(
        "the artifact store, a folder or s3://bucket/prefix (default: ./store)", default="store", metavar="STORE"
    )


@dataclass(frozen=True, kw_only=True)
class OfSweep(OfStore):
    sweep: Path = option(
        "a sweep file, or the name of one that comes with smoothsweep: quickstart", "sweep", metavar="SWEEP.yaml"
    )
    overrides: list[str] = option(
        "set a key of the sweep file, e.g. --set recipe.epochs=20 (repeatable)",
        "--set",
        dest="overrides",
        default=[],
        action="append",
        metavar="PATH=VALUE",
    )


@dataclass(frozen=True, kw_only=True)
class Spending:
    """When to ask."""

    group: ClassVar = (
        "confirmation",
        "A run that is expected to cost more than a threshold asks on the terminal; without a terminal it ends with "
        "exit code 2. The estimate uses the times of this store, or else those of another machine. A run without an "
        "estimate asks too, unless the sweep's budget bounds it.",
    )
    price: float | None = option(PRICE, type=amount, metavar="DOLLARS")
    confirm_above: float = option(
        "ask above so many device-hours (default: 24)", default=24.0, type=amount, metavar="HOURS"
    )
    confirm_above_dollars: float | None = option(
        "with --price: ask above so many dollars (default: 100)", type=amount, metavar="DOLLARS"
    )
    yes: bool = option("the answer, for scripts")


@dataclass(frozen=True, kw_only=True)
class RunRequest(Spending, OfSweep):
    """Run the sweep file; finished stages are reused."""

    tracking_uri: str | None = option("MLflow tracking URI (default: SQLite in the store)", metavar="URI")
    address: str | None = option("Ray cluster to join (default: RAY_ADDRESS, else this machine)", metavar="ADDR")
    out: Path | None = option("where the report goes (default: STORE/sweeps/NAME)", **OUT)
    only_judges: bool = option(
        "other judges, as in --set judges.embedder.name=facenet, for the images in the store; nothing is attacked, "
        "and the new table stands beside the old one (NAME-rejudged, unless --set name=... says another)"
    )


@dataclass(frozen=True, kw_only=True)
class PlanRequest(OfSweep):
    """What would run, what is reused, expected device-hours and dollars."""

    price: float | None = option(PRICE, type=amount, metavar="DOLLARS")
    tell: float | None = option("what a difference of so many percentage points needs", type=points, metavar="POINTS")
    json: bool = option("as JSON")


@dataclass(frozen=True, kw_only=True)
class StatusRequest(OfSweep):
    """What is done, running, failed, missing."""

    json: bool = option("as JSON")


@dataclass(frozen=True, kw_only=True)
class ReportRequest(OfSweep):
    """Write results, report.html and figures from the store."""

    more: list[Path] = option(
        "further sweep files or bundles (OUT.zip), in one table", "more", default=[], nargs="*", metavar="MORE"
    )
    out: Path | None = option("where to write (default: STORE/sweeps/NAME; needed with several sweeps)", **OUT)
    json: bool = option("print the whole result as JSON, write nothing")


@dataclass(frozen=True, kw_only=True)
class SlurmRequest(OfSweep):
    """Write a batch script for a Slurm cluster and submit it."""

    nodes: int = option("nodes of the job (default: 1)", default=1, type=whole(1), metavar="N")
    gpus_per_node: int = option("GPUs of each node (default: none asked for)", default=0, type=whole(1), metavar="G")
    cpus_per_node: int | None = option("CPUs of each node (default: the cluster's)", type=whole(1), metavar="C")
    mem: str | None = option(
        "memory of each node, e.g. 64G (default: the cluster's)",
        type=text_like("[0-9]{1,12}([KMGTkmgt][Bb]?)?", "an amount of memory as in 64G"),
        metavar="MEM",
    )
    time: str = option("time limit, as in sbatch: 12:00:00, 2-00, 90", required=True, type=WORD, metavar="T")
    partition: str | None = option("partition (default: the cluster's)", type=WORD, metavar="P")
    account: str | None = option("account that is charged", type=WORD, metavar="A")
    qos: str | None = option("quality of service", type=WORD, metavar="Q")
    sbatch: list[str] = option(
        "a further sbatch option, as in --sbatch=--exclusive (repeatable)",
        default=[],
        action="append",
        type=WORD,
        metavar="OPTION",
    )
    array: str | None = option(
        "workers as jobs of their own that come and go, e.g. 0-7 or 0-31%%8; the options for GPUs, CPUs and memory "
        "then describe a worker, and the head's job has CPUs alone",
        metavar="0-N",
    )
    setup: list[str] = option(
        "a shell line to run first: 'module load cuda'", default=[], action="append", metavar="LINE"
    )
    python: str | None = option(
        "how Python is started on the nodes, e.g. 'apptainer exec --nv image.sif python' (default: this one)",
        metavar="WORDS",
    )
    grace: int = option(
        f"warning before the time limit (default: {GRACE_S})", default=GRACE_S, type=whole(120), metavar="SECONDS"
    )
    folder: Path | None = option("for script, token, address; all nodes see it (default: ./slurm/NAME)", metavar="DIR")
    tracking_uri: str | None = option("MLflow tracking URI (default: SQLite in the store)", metavar="URI")
    dry_run: bool = option("print the script; write and submit nothing")


TABLES = ("latex", "csv", "md")
FIGURES = ("pdf", "svg", "png")


@dataclass(frozen=True, kw_only=True)
class ExportRequest(OfSweep):
    """Tables, figures, images and references of a sweep, for a paper."""

    out: Path = option("a new or empty folder", required=True, **OUT)
    tables: tuple[str, ...] = option(
        "some of latex,csv,md, or none (default: all)", default=TABLES, type=some_of(*TABLES), metavar="FORMATS"
    )
    figures: tuple[str, ...] = option(
        "some of pdf,svg,png, or none (default: all)", default=FIGURES, type=some_of(*FIGURES), metavar="FORMATS"
    )
    images: Literal["best", "all", "none"] | None = option(
        "reconstructions as PNG: best: of each class the first, by the strongest attack on each recipe, under the "
        "first seed (default; with --redact: none)",
        choices=("best", "all", "none"),
    )
    redact: bool = option("no names of classes and no pictures, for sharing")


@dataclass(frozen=True, kw_only=True)
class BundleRequest(OfSweep):
    """Report, tables, manifests and settings of a sweep as one file, which `report` opens."""

    out: Path = option("a new file", "out", metavar="OUT.zip")
    with_images: bool = option("training images beside reconstructions too")


@dataclass(frozen=True, kw_only=True)
class StudyBuild(OfSweep):
    """A page of questions, one file, from the pictures in the store."""

    out: Path | None = option(
        "where study.html and its key study.json go; keep the key (default: STORE/sweeps/NAME/study)", **OUT
    )
    seed: int | None = option("of people, pictures and order (default: drawn, and kept)", metavar="N")
    people: int | None = option("how many to ask about (default: 150, or all)", type=whole(1), metavar="N")
    recipes: list[str] = option(
        "a recipe to show, by the report's name for it (repeatable; default: all)",
        "--recipe",
        dest="recipes",
        default=[],
        action="append",
        metavar="NAME",
    )
    attack: str | None = option("whose reconstructions, where the sweep has several attacks", metavar="NAME")


@dataclass(frozen=True, kw_only=True)
class StudyRead:
    """Shares with intervals and agreement, from the annotators' files."""

    answers: list[Path] = option("a file from every annotator", "answers", nargs="+", metavar="ANSWERS")
    study: Path | None = option("the key (default: study.json beside the first file)", metavar="FILE")
    json: bool = option("as JSON")


@dataclass(frozen=True, kw_only=True)
class UiRequest(OfStore):
    """MLflow's pages on the local store, opened where the newest sweep is compared."""

    port: int = option("port on this machine (default: 5000)", default=5000)
    browser: bool = option(
        "print the links, open nothing", "--no-browser", dest="browser", default=True, action="store_false"
    )


@dataclass(frozen=True, kw_only=True)
class DiffRequest(OfStore):
    """How two trials, recipes or runs differ: settings, inputs, numbers."""

    a: str = option(_NAMES, "a", metavar="A")
    b: str = option("likewise", "b", metavar="B")
    other_store: str | None = option("where B lies, if not in the same store", metavar="STORE")
    json: bool = option("as JSON")


@dataclass(frozen=True, kw_only=True)
class LineageRequest(OfStore):
    """Every manifest that a trial or a file rests on."""

    name: str = option(
        "a trial's id, SWEEP:TRIAL as `status` names it, or an artifact's file",
        "name",
        metavar="TRIAL|FILE",
    )
    number: str | None = option("of a trial: only what this number stands on", metavar="COLUMN")
    json: bool = option("as JSON")


@dataclass(frozen=True, kw_only=True)
class DoctorRequest(OfStore):
    """What this machine can run, and what it lacks."""


@dataclass(frozen=True, kw_only=True)
class PluginsRequest:
    """What other packages bring: attacks, membership, defenses, judges, priors, data, models, search."""


@dataclass(frozen=True, kw_only=True)
class GarbageRequest(OfStore):
    """Remove artifacts that no sweep of this store needs, and damaged ones."""

    yes: bool = option("remove; without it the command only lists")


@dataclass(frozen=True, kw_only=True)
class StoreExport(OfStore):
    """Copy all that a sweep needs into a new store."""

    sweep: str = option("the sweep's name, as `store ls` lists it", "sweep", metavar="NAME")
    out: Path = option("the new store; must not exist", "out", metavar="DIR")


@dataclass(frozen=True, kw_only=True)
class LinkRequest(OfStore):
    other: str = option("the other store's folder, which all nodes see", "other", metavar="OTHER")


@dataclass(frozen=True, kw_only=True)
class OwnImages:
    judge: str | None = option(
        "a face embedder with the file of its weights, which looks for the private people on the public images "
        "(default: copies alone are looked for)",
        metavar="NAME=FILE",
    )
    bits: Bits | None = option(**BITS)


@dataclass(frozen=True, kw_only=True)
class DataCheck(OwnImages):
    """What was found, what is missing, broken or there twice; of a published set, whether counts equal the paper's."""

    path: Path = option("your own: a folder per person, or a Parquet file", "path", metavar="PATH")
    public: Path | None = option(
        "your public images of other people: none of them may be a private one", metavar="PATH"
    )
    kind: str | None = option("the published data set it should be", "--as", choices=PUBLISHED_SETS, dest="kind")
    classes: int | None = option("with --as: how many classes to expect (default: the paper's)")
    pictures: str | None = option("celeba only: crops, aligned, in_the_wild or in_the_wild_68")


@dataclass(frozen=True, kw_only=True)
class InitRequest(OwnImages):
    """Write a first sweep file for your own data."""

    data: Path | None = option(
        "the private images: a folder per person, or a Parquet file (default: a name to fill in)", metavar="PATH"
    )
    public: Path | None = option("images of other people, as the attacker has them", metavar="PATH")
    faces: bool = option(
        "the images show no faces: the general judge in place of a face embedder",
        "--no-faces",
        dest="faces",
        default=True,
        action="store_false",
    )
    out: Path | None = option("where to write (default: NAME.yaml, after the data)", metavar="FILE")


@dataclass(frozen=True, kw_only=True)
class WeightsRequest:
    """Fetch and verify what sweeps need, before they run; say what could not be had."""

    sweeps: list[Path] = option("default: every file we know of", "sweeps", default=[], nargs="*", metavar="SWEEP.yaml")
    dir: Path | None = option("where to put them (default: SMOOTHSWEEP_WEIGHTS or torch hub's cache)", metavar="DIR")


@dataclass(frozen=True, kw_only=True)
class OfImported(OfStore):
    """file: what is brought in. out: where to, the usual place unless it was typed."""

    file: Any
    out: Path = option("default: STORE/imported/(priors, targets or gans)/NAME", **OUT)


@dataclass(frozen=True, kw_only=True)
class ImportRequest(OfImported):
    file: Path = option("what is brought in", "file", metavar="FILE")


@dataclass(frozen=True, kw_only=True)
class PriorRequest(ImportRequest):
    """An official StyleGAN2 network pickle (ffhq.pkl), or random-face: the package's generator of faces; nothing of
    either is run.
    """

    group: ClassVar = ("for random-face only", None)
    package: Path | None = option(
        "the wheel or a folder of its files (default: the installed package, else the wheel in SMOOTHSWEEP_WEIGHTS)",
        "package",
        nargs="?",
        metavar="PATH",
    )
    resolution: list[int] | None = option(
        f"train a read-out for images of so many pixels: {', '.join(map(str, READ_OUT))} (default: all); 1024 needs "
        "none",
        nargs="+",
        choices=READ_OUT,
        metavar="N",
    )
    images: int | None = option(
        f"images of 1024 pixels that the read-outs learn from, a CPU second or two each (default: {IMAGES})",
        metavar="N",
    )
    judge: str | None = option(
        "a face embedder, e.g. mobilefacenet_a and its weights: notes how far it takes a read-out's images for those "
        "of 1024 pixels",
        metavar="NAME=FILE",
    )


@dataclass(frozen=True, kw_only=True)
class JudgeRequest(OfStore):
    """A published face embedder (FaceNet, MobileFaceNet, IR-50, IR-152): its checkpoint becomes an independent judge;
    which it is, the file says.
    """

    file: Path = option("its checkpoint", "file", metavar="FILE")
    out: Path | None = option("default: STORE/imported/judges/NAME.safetensors", metavar="FILE")


@dataclass(frozen=True, kw_only=True)
class GanRequest(ImportRequest):
    """The GAN of GMI, KED-MI, LOMMA or PLG-MI, from the official checkpoints."""

    part: str = option("which part of an attack it is", choices=tuple(NETWORKS), required=True)
    discriminator: Path | None = option("of its discriminator, unless it is a plg_gan", metavar="FILE")


@dataclass(frozen=True, kw_only=True)
class Reading:
    """What the owner of a classifier says of it; None where nothing was said.

    Attributes:
        architecture: Needed for weights alone.
        options: Options that one kind of foreign model alone has, by the names of its fields.
    """

    group: ClassVar = (
        "how it reads an image",
        "The weights do not say. Whatever is said here is tried on real images, now if there are any and before every "
        "attack: a classifier that does not recognise them is refused.",
    )
    architecture: str | None = None
    image_size: int | None = option(
        "side of its images; needed unless the architecture fixes it (vit_b_16: 224, inception_v3: 299)",
        metavar="PIXELS",
    )
    mean: list[float] | None = option(
        "mean of the channels of pictures in [0, 1], e.g. ImageNet's (default: 0.5 0.5 0.5)", nargs=3, metavar=_ORDER
    )
    std: list[float] | None = option(
        "std of the channels of pictures in [0, 1], e.g. ImageNet's (default: 0.5 0.5 0.5)", nargs=3, metavar=_ORDER
    )
    input_range: list[float] | None = option(
        "instead: black and white as it was shown them, e.g. 0 1 or 0 255 (default: -1 1)",
        nargs=2,
        metavar=("LOW", "HIGH"),
    )
    channels: str | None = option(
        "the order in which it gets a picture's channels: bgr for one trained on files as OpenCV reads them; "
        "--mean and --std are of red, green and blue all the same (default: rgb)",
        choices=("rgb", "bgr"),
    )
    transform_input: bool | None = option(
        "inception_v3 only, and there needed: whether it maps its inputs to other statistics first",
        action="store",
        type=true_or_false,
        metavar="{true,false}",
    )
    answers: str | None = option(
        "what a program says of an image: numbers before the softmax, after it, or the class alone (default: logits)",
        choices=get_args(Answers),
    )
    bits: Bits | None = option(**BITS)
    weights: str | None = option(
        "of a checkpoint that holds several sets of weights (plain and averaged, say) take this one (default: one is "
        "taken, and the others are named)",
        metavar="NAME",
    )
    leave_out: list[int] | None = option(
        "outputs of a program that are nobody of the data, from 0: a background class, say", nargs="+", metavar="OUTPUT"
    )
    random_answers: bool | None = option(
        "the program draws noise on purpose, as some defenses do: a picture's answer may vary", action="store_true"
    )
    stated_acc: float | None = option(
        "the test accuracy it is said to have", "--test-acc", dest="stated_acc", metavar="FRACTION"
    )
    class_names: Path | None = option(
        "a name per line, in the order of its outputs, as the data have them (default: the data's own order)",
        metavar="FILE",
    )
    options: Mapping[str, Any] = field(default_factory=dict)

    def given(self, *names: str) -> Iterator[tuple[str, str]]:
        """The options among these attributes that were given, each with its value, both as typed."""
        for name in names:
            if (value := getattr(self, name)) is not None:
                yield "--test-acc" if name == "stated_acc" else f"--{name.replace('_', '-')}", as_typed(value)


def as_typed(value: object) -> str:
    """A flag's value as it stands on a command line: several numbers with spaces between."""
    parts = value if isinstance(value, list) else [value]
    return " ".join(f"{part:g}" if isinstance(part, float) else str(part) for part in parts)


@dataclass(frozen=True, kw_only=True)
class TargetRequest(Reading, OfImported):
    """A classifier: a checkpoint, or a program such as an ONNX file.

    Attributes:
        data: A published set's name, or the path of own data.
        data_path: Where the published set lies.
    """

    file: Source = option("what is brought in", "file", type=as_source, metavar="FILE")
    architecture: str | None = option(
        "needed for a checkpoint, e.g. resnet152 or timm:vit_tiny_patch16_224; a program brings its own"
    )
    classes: int = option("how many classes it tells apart", required=True)
    alpha: float | None = option("the smoothing factor it was trained with, for the tables")
    data: str | None = option(
        "what it was trained on, to measure its test accuracy: a folder of class folders, a Parquet file, or one of "
        f"{', '.join(PUBLISHED_SETS)}",
        metavar="NAME|PATH",
    )
    data_path: Path | None = option("where the published data set of that name lies", metavar="DIR")


def add_request(parser: argparse.ArgumentParser, request: type[Any]) -> None:
    """Give a command all options of its request: its bases' first, those of a class with a `group` in a group of it."""
    for part in reversed(request.__mro__):
        if is_dataclass(part):
            group = vars(part).get("group")  # title and description
            add_options(parser.add_argument_group(*group) if group else parser, part)
    for kind in KINDS.values() if issubclass(request, Reading) else ():
        if fields(kind):  # options that one kind of foreign model alone has
            add_options(parser.add_argument_group(*kind.options), kind)


def read_request(request: type[Any], options: argparse.Namespace) -> Any:
    """The request as it was typed."""
    more: dict[str, Any] = {}
    if issubclass(request, Reading):  # what one kind of foreign model alone is told
        more["options"] = {
            entry.name: getattr(options, entry.name) for kind in KINDS.values() for entry in fields(kind)
        }
    return request_of(request, options, **more)
