"""The judges of an audit: by `--judge`, a second embedder of faces, and whom public images show to them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from smoothsweep.core import screen
from smoothsweep.core.errors import InputError
from smoothsweep.core.judges.table import judge_of_network
from smoothsweep.core.models.embedder_kinds import FACES
from smoothsweep.core.models.embedder_kinds import KINDS as EMBEDDERS
from smoothsweep.core.models.weight_files import find_weight_file, weight_folders
from smoothsweep.core.text import shortened

Judges = dict[str, dict[str, str]]
"""Judges as in the section `judges` of a sweep file: name -> settings."""

FACE = judge_of_network(next(iter(FACES)))
ENDINGS = (".safetensors", ".pth", ".pt", ".ckpt")


def judge_of(option: str | None) -> Judges:
    """The judge that `NAME=FILE` names, empty for None. Raises InputError."""
    if option is None:
        return {}
    name, _, weights = option.partition("=")
    if name not in EMBEDDERS:
        raise InputError(f"--judge: expected one of {', '.join(EMBEDDERS)}, got {shortened(name)!r}")
    kind, judge = EMBEDDERS[name], judge_of_network(name)
    if kind.shipped is not None:
        if weights:
            raise InputError(f"--judge: expected no file with {name}, whose weights are shipped")
        return {judge: {"name": name}}
    if kind.is_staged and not weights and (staged := find_weight_file(name, weight_folders())) is not None:
        weights = str(staged)
    if not weights or not Path(weights).is_file():
        where = ", or staged by smoothsweep weights stage" if kind.is_staged else ""
        raise InputError(
            f"--judge: expected {name}=FILE with the file of its weights{where}, got {shortened(option)!r}"
        )
    return {judge: {"name": name, "weights": str(Path(weights).resolve())}}


def two_judges(options: list[str] | None) -> tuple[str | None, str | None]:
    """The values of the first and of the second `--judge`. Raises InputError for more than two."""
    if options is not None and len(options) > 2:
        raise InputError(f"--judge: expected it once or twice, got it {len(options)} times")
    return (options[0] if options else None, options[1] if options and len(options) > 1 else None)


def second_judge(first: Judges, option: str | None, *, looked_for: bool) -> Judges:
    """The second embedder of faces, empty without one.

    option: `NAME=FILE` of the second `--judge`. looked_for: where no second is given, take an embedder whose weights
    lie next to the first's or are staged. Raises InputError for a second that equals the first or embeds no faces.
    """
    one = first.get(FACE)
    if option is not None:
        judge = judge_of(option)
        if one is None or FACE not in judge:
            raise InputError(
                f"--judge: expected two embedders of faces where it is said twice, got {shortened(option)!r}"
            )
        if judge[FACE]["name"] == one["name"]:
            raise InputError(f"--judge: expected two different embedders, got {one['name']} twice")
        return judge
    if one is None or "weights" not in one or not looked_for:
        return {}
    folder = Path(one["weights"]).parent
    for name in FACES:
        kind = EMBEDDERS[name]
        if name == one["name"] or kind.shipped is not None:
            continue
        places = [folder / f"{name}{ending}" for ending in ENDINGS]
        staged = find_weight_file(name, weight_folders()) if kind.is_staged else None
        for place in (*places, *([staged] if staged else [])):
            if place.is_file():
                return {FACE: {"name": name, "weights": str(place.resolve())}}
    return {}


# Whom public images show

COPIES_ALONE = (
    "public images were compared for copies alone: with --judge NAME=FILE, a face embedder looks for the same people "
    "in other photographs, too"
)


@dataclass(frozen=True, kw_only=True)
class Found:
    """What was found, in sentences: warnings with names and without, and notes where there is nothing to warn of."""

    warnings: tuple[str, ...] = ()
    unnamed: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def look_for_people(
    private: Path, public: Path, judges: Judges, *, bits: int | None, tell: Callable[[str], None] = screen.out
) -> Found:
    """Compare the people of two sets by the embedder of faces among the judges. Raises InputError."""
    if (judge := judges.get(FACE)) is None:
        return Found(notes=(COPIES_ALONE,))
    from smoothsweep.core.analysis.shown_people import find_shown_people

    shown = find_shown_people(private, public, judge, bits=bits, tell=tell)
    lines = shown.lines(judge["name"])
    if not shown.is_surprising:
        return Found(notes=lines)
    return Found(warnings=lines, unnamed=shown.lines(judge["name"], named=False))
