"""`smoothsweep data check` and `smoothsweep init`: what is on disk, and a first sweep file for one's own images.

The file's sizes follow from the images, section by section with the reasons; `smoothsweep plan` takes it as it is.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from smoothsweep.core import screen
from smoothsweep.core.checks import present
from smoothsweep.core.errors import InputError
from smoothsweep.core.files import write_file
from smoothsweep.core.text import few, printable
from smoothsweep.orchestrator.commands.requests import DataCheck, InitRequest

if TYPE_CHECKING:
    from smoothsweep.core.data.own_check import OwnCheck

MOST_CLASSES, MOST_PUBLIC = 20, 8000
SIZES = (32, 64)  # pixels that pictures are kept at, the least and the most
COMPONENTS, BATCH = 150, 50
STEPS_OF_AN_EPOCH = 4  # at least, of few images


def check_data(options: DataCheck) -> int:
    """Look at data on disk. The exit code: 1 where something is missing, broken, or would be refused."""
    if options.kind is not None:
        for name, value in (("--public", options.public), ("--judge", options.judge), ("--bits", options.bits)):
            if value is not None:
                raise InputError(f"{name} {value}: expected none beside --as {options.kind}, not your own data")
        return _check_published(options)
    for name, value in (("--classes", options.classes), ("--pictures", options.pictures)):
        if value is not None:
            raise InputError(f"{name} {value}: expected --as beside it, got none")
    return _check_own(options)


def _check_own(options: DataCheck) -> int:
    """The exit code: 1 where loading would refuse something. Raises InputError where a private picture is public."""
    from smoothsweep.core.data.likeness import refuse_identical
    from smoothsweep.core.data.own_check import check_own
    from smoothsweep.orchestrator.commands.audit.subject import Found, judge_of, look_for_people

    path, public, bits = options.path, options.public, options.bits
    judges = judge_of(options.judge)
    check = check_own(path, public, bits=bits, tell=screen.out)
    shown = Found() if public is None else look_for_people(path, public, judges, bits=bits)
    screen.out_text("\n".join(map(printable, check.lines((*shown.warnings, *shown.notes)))))
    if public is not None:
        refuse_identical(path, public, check.shared)
    return 0 if check.is_usable else 1


def _check_published(options: DataCheck) -> int:
    """The exit code: 1 where something is missing, broken, or not as recorded."""
    from smoothsweep.core.data.published import check_published

    check = check_published(
        present(options.kind, "kind"), options.path, classes=options.classes, pictures=options.pictures
    )
    screen.out_text("\n".join(map(printable, check.lines)))
    return 0 if check.is_complete else 1


def write_first_sweep(options: InitRequest) -> int:
    """Write a first sweep file. Returns the exit code.

    Raises InputError, and writes nothing, for images that a sweep would refuse, and where there is something already.
    """
    from smoothsweep.orchestrator.commands.audit.subject import judge_of
    from smoothsweep.orchestrator.planning.power import power_before_data, power_lines
    from smoothsweep.sweeps.expand import check
    from smoothsweep.sweeps.load import load_sweep, read_yaml

    file = options.out or Path(f"{sweep_name(options.data)}.yaml")
    if file.exists() or file.is_symlink():
        raise InputError(f"--out {file}: expected a new file, got one that is there already")
    if not file.parent.is_dir():
        raise InputError(f"--out {file}: expected a file in a folder that is there, got no folder {file.parent}")
    data, public = (path and path.expanduser().resolve() for path in (options.data, options.public))
    if data is None and public is not None:
        raise InputError(f"--public {public}: expected --data beside it, got none")
    judges = judge_of(options.judge)
    sizes = Sizes() if data is None else _sizes(data, public, judges, options.bits)
    text = own_sweep_text(data, public, sizes, faces=options.faces, judges=judges)
    check(read_yaml(text, str(file)), str(file))
    write_file(file, text)
    screen.out(
        f"{file}: four smoothing factors, each attacked with the published loss and with logit; change it as you like"
    )
    for line in power_lines(power_before_data(load_sweep(file))):
        screen.out(line)
    screen.out(f"then: smoothsweep plan {file}")
    return 0


def _sizes(data: Path, public: Path | None, judges: dict[str, Any], bits: int | None) -> Sizes:
    from smoothsweep.core.data.likeness import pair_labels, refuse_identical
    from smoothsweep.core.data.own_check import check_own
    from smoothsweep.orchestrator.commands.audit.subject import look_for_people

    check = check_own(data, public, bits=bits, tell=screen.out)
    if check.faults:
        raise InputError(
            f"data {data}: expected images that a sweep takes, got {len(check.faults)} faults "
            f"(smoothsweep data check lists them): {few(check.faults, 2)}"
        )
    if public is not None:
        refuse_identical(data, public, check.shared)
    for where, pairs in check.near.items():
        if pairs:
            screen.err(f"smoothsweep: {len(pairs)} near-duplicates {where}: {few(pair_labels(pairs, '~'))}")
    if public is not None:
        shown = look_for_people(data, public, judges, bits=bits)
        for line in shown.warnings:
            screen.err(f"smoothsweep: --public {public}: {line}")
        for line in shown.notes:
            screen.out(line)
    return Sizes.of(check)


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """What the file's numbers are taken from; None where nothing is known of it.

    Attributes:
        classes, training: Classes and training images of the private data.
        median: Side in pixels of the smaller ones of private and public images.
        public: How many public images there are.
        bits: How many bits deep images were said to use.
    """

    classes: int | None = None
    training: tuple[int, ...] = ()
    median: int | None = None
    public: int | None = None
    bits: int | None = None

    @classmethod
    def of(cls, check: OwnCheck) -> Sizes:
        sides = [shapes.median for shapes in (check.shapes, check.public) if shapes is not None]
        return cls(
            classes=len(check.counts),
            training=tuple(train for train, _ in check.counts.values()),
            median=min(sides),
            public=None if check.public is None else check.public.images,
            bits=check.shapes.bits,
        )

    @property
    def side(self) -> int:
        """Side in pixels that pictures are kept at: they are not enlarged more than the networks need."""
        return SIZES[1] if self.median is None else min(SIZES[1], max(SIZES[0], self.median // 16 * 16))

    @property
    def largest(self) -> int | None:
        """How many of the classes to take, None for all."""
        return MOST_CLASSES if self.classes is None or self.classes > MOST_CLASSES else None

    @property
    def batch(self) -> int:
        """Fewer images at once where there are few, so that an epoch has some steps."""
        chosen = sum(sorted(self.training, reverse=True)[: self.largest])
        return min(BATCH, max(2, chosen // STEPS_OF_AN_EPOCH)) if chosen else BATCH

    @property
    def components(self) -> int:
        """Components of the prior: no more than there are images to fit it on."""
        return COMPONENTS if self.public is None else max(1, min(COMPONENTS, self.public // 2))


def sweep_name(data: Path | None) -> str:
    """A sweep's name from that of the data."""
    stem = re.sub(r"[^A-Za-z0-9._-]+", "-", data.stem if data else "own").strip("-._")
    return stem[:64] or "own"


def own_sweep_text(
    data: Path | None,
    public: Path | None,
    sizes: Sizes,
    *,
    faces: bool = True,
    judges: Mapping[str, Any] | None = None,
) -> str:
    """The file. data, public: where the images lie, None for a name to be filled in. judges: beside the evaluator."""
    from jinja2 import Environment, StrictUndefined

    made = Environment(undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True)
    made.filters["tojson"] = lambda value: json.dumps(value, ensure_ascii=False)  # which is YAML, too
    return made.from_string(Path(__file__).with_name("first_sweep.yaml").read_text(encoding="utf-8")).render(
        name=sweep_name(data),
        faces=faces,
        judges=judges or ({} if faces else {"general": {}}),
        data=str(data or ("faces.parquet" if faces else "images.parquet")),
        public=str(public or ("other-people.parquet" if faces else "other-images.parquet")),
        known=data is not None and sizes.classes is not None,
        classes=sizes.classes,
        images=sum(sizes.training),
        fewest=min(sizes.training, default=0),
        most=max(sizes.training, default=0),
        largest=sizes.largest,
        public_images=public and sizes.public,
        limit=MOST_PUBLIC if sizes.public is None or sizes.public > MOST_PUBLIC else None,
        size=sizes.side,
        bits=sizes.bits,
        batch=sizes.batch,
        components=sizes.components,
    )
