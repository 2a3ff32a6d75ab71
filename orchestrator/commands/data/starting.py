"""`smoothsweep init`: a first sweep file for one's own images, which `smoothsweep plan` takes as it is."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from smoothsweep.core import screen
from smoothsweep.core.data.likeness import pair_labels, refuse_identical
from smoothsweep.core.data.own_check import check_own
from smoothsweep.core.errors import InputError
from smoothsweep.core.files import write_file
from smoothsweep.core.text import few
from smoothsweep.orchestrator.commands.audit.judges import Judges, judge_of
from smoothsweep.orchestrator.commands.audit.people_shown import look_for_people
from smoothsweep.orchestrator.commands.data.own_sweep import FACES, NO_FACES, Sizes, own_sweep_text, sweep_name
from smoothsweep.orchestrator.planning.power import power_before_data, power_lines
from smoothsweep.sweeps.load import load_sweep
from smoothsweep.sweeps.loaded import check
from smoothsweep.sweeps.yaml_reader import read_yaml


@dataclass(frozen=True, kw_only=True)
class Looking:
    """How the images are looked at: NAME=FILE of a face embedder, and how many bits deep images use."""

    judge: str | None = None
    bits: int | None = None


def write_own_sweep(
    data: Path | None, public: Path | None, out: Path | None, looking: Looking, *, faces: bool = True
) -> int:
    """Write a first sweep file. Returns the exit code.

    faces: whether the images show faces. Raises InputError, and writes nothing, for images that a sweep would refuse,
    and where there is something already.
    """
    file = out or Path(f"{sweep_name(data)}.yaml")
    if file.exists() or file.is_symlink():
        raise InputError(f"--out {file}: expected a new file, got one that is there already")
    if not file.parent.is_dir():
        raise InputError(f"--out {file}: expected a file in a folder that is there, got no folder {file.parent}")
    data, public = (path and path.expanduser().resolve() for path in (data, public))
    if data is None and public is not None:
        raise InputError(f"--public {public}: expected --data beside it, got none")
    judges = judge_of(looking.judge)
    subject = FACES if faces else NO_FACES
    if judges:
        subject = replace(subject, judges=judges)
    sizes = Sizes() if data is None else _sizes(data, public, judges, looking.bits)
    text = own_sweep_text(data, public, sizes, subject)
    check(read_yaml(text, str(file)), str(file))
    write_file(file, text)
    screen.out(
        f"{file}: four smoothing factors, each attacked with the published loss and with logit; change it as you like"
    )
    for line in power_lines(power_before_data(load_sweep(file))):
        screen.out(line)
    screen.out(f"then: smoothsweep plan {file}")
    return 0


def _sizes(data: Path, public: Path | None, judges: Judges, bits: int | None) -> Sizes:
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
