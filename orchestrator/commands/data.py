"""`smoothsweep data check` and `smoothsweep init`: what is on disk, and a first sweep file for one's own images.

The file's sizes follow from the images, section by section with the reasons; `smoothsweep plan` takes it as it is.
"""

from __future__ import annotations

import json
import re
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
    """Look at data on disk. The exit code: 1 where something is missing, broken, not as recorded, or would be refused.

    Raises InputError where a private picture of one's own is public.
    """
    own = options.kind is None
    place = "--as beside it, got none" if own else f"none beside --as {options.kind}, not your own data"
    for name in ("classes", "pictures") if own else ("public", "judge", "bits"):
        if (value := getattr(options, name)) is not None:
            raise InputError(f"--{name} {value}: expected {place}")
    if options.kind is not None:
        from smoothsweep.core.data.published import check_published

        found = check_published(options.kind, options.path, classes=options.classes, pictures=options.pictures)
        screen.out_text("\n".join(map(printable, found.lines)))
        return 0 if found.is_complete else 1
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


def write_first_sweep(options: InitRequest) -> int:
    """Write a first sweep file. Returns the exit code.

    Raises InputError, and writes nothing, for images that a sweep would refuse, and where there is something already.
    """
    from jinja2 import Environment

    from smoothsweep.orchestrator.commands.audit.subject import judge_of
    from smoothsweep.orchestrator.planning.power import power_lines, power_of
    from smoothsweep.sweeps.expand import check
    from smoothsweep.sweeps.load import load_sweep, read_yaml

    data, public = (path and path.expanduser().resolve() for path in (options.data, options.public))
    stem = data.stem if data else "own"
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", stem).strip("-._")[:64] or "own"
    file = options.out or Path(f"{name}.yaml")
    if file.exists() or file.is_symlink():
        raise InputError(f"--out {file}: expected a new file, got one that is there already")
    if not file.parent.is_dir():
        raise InputError(f"--out {file}: expected a file in a folder that is there, got no folder {file.parent}")
    if data is None and public is not None:
        raise InputError(f"--public {public}: expected --data beside it, got none")
    judges = judge_of(options.judge)
    numbers = _numbers(None if data is None else _checked(data, public, judges, options.bits))
    places = ("faces.parquet", "other-people.parquet") if options.faces else ("images.parquet", "other-images.parquet")
    made = Environment(trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True)
    made.filters["tojson"] = lambda value: json.dumps(value, ensure_ascii=False)  # which is YAML, too
    text = made.from_string(Path(__file__).with_name("first_sweep.yaml").read_text(encoding="utf-8")).render(
        name=name,
        faces=options.faces,
        judges=judges or ({} if options.faces else {"general": {}}),
        data=str(data or places[0]),
        public=str(public or places[1]),
        **numbers,
    )
    check(read_yaml(text, str(file)), str(file))
    write_file(file, text)
    screen.out(
        f"{file}: four smoothing factors, each attacked with the published loss and with logit; change it as you like"
    )
    for line in power_lines(present(power_of(load_sweep(file)), "power")):
        screen.out(line)
    screen.out(f"then: smoothsweep plan {file}")
    return 0


def _checked(data: Path, public: Path | None, judges: dict[str, Any], bits: int | None) -> OwnCheck:
    """What is known of images that a sweep takes. Raises InputError for others."""
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
    return check


def _numbers(check: OwnCheck | None) -> dict[str, Any]:
    """The file's numbers, which follow from the images; the usual ones where nothing is known of them.

    Pictures are not enlarged more than the networks need; fewer are taken at once where there are few, so that an epoch
    has some steps; a prior has no more components than half the images it is fitted on.
    """
    usual = {"largest": MOST_CLASSES, "limit": MOST_PUBLIC, "size": SIZES[1], "batch": BATCH, "components": COMPONENTS}
    if check is None:
        return usual
    training = sorted((train for train, _ in check.counts.values()), reverse=True)
    public = None if check.public is None else check.public.images
    largest = MOST_CLASSES if len(training) > MOST_CLASSES else None
    side = min(shapes.median for shapes in (check.shapes, check.public) if shapes is not None)
    chosen = sum(training[:largest])
    return {
        "known": True,
        "classes": len(training),
        "images": sum(training),
        "fewest": training[-1],
        "most": training[0],
        "largest": largest,
        "public_images": public,
        "limit": MOST_PUBLIC if public is None or public > MOST_PUBLIC else None,
        "size": min(SIZES[1], max(SIZES[0], side // 16 * 16)),
        "bits": check.shapes.bits,
        "batch": min(BATCH, max(2, chosen // STEPS_OF_AN_EPOCH)) if chosen else BATCH,
        "components": COMPONENTS if public is None else max(1, min(COMPONENTS, public // 2)),
    }
