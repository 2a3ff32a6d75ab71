"""A check of a user's own pictures, as lines for a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from smoothsweep.core.data.own.check import OwnCheck, Shapes
from smoothsweep.core.data.own.overlap import pair_labels

_MOST_LINES = 20
_EXTREMES = 5  # classes named at either end


def own_text(check: OwnCheck) -> list[str]:
    """Counts, shapes, what looks alike, faults, and a verdict."""
    train, test = (sum(pair[part] for pair in check.counts.values()) for part in (0, 1))
    lines = [f"own data in {check.path}", f"  classes: {len(check.counts)}; {train} training and {test} test images"]
    lines += [f"  {text}" for text in _balance(check)]
    lines += [f"  private: {text}" for text in _shapes(check.shapes)]
    if check.public is not None:
        lines += [f"  public, {check.public_path}: {text}" for text in _shapes(check.public)]
    lines += [f"  {note}" for note in check.notes]
    for where, pairs in check.near.items():
        lines += _listed(f"near-duplicates {where}", pair_labels(pairs, "~"))
    lines += _listed("to look at, which loading accepts", check.doubts)
    lines += _listed("faults, which loading refuses", check.faults)
    lines += _listed("private pictures that are public too", pair_labels(check.shared, "="))
    return [*lines, "  fine" if check.is_usable else f"  not fine: {_verdict(check)}"]


def _balance(check: OwnCheck) -> list[str]:
    """How many images the classes have, and which have most and fewest."""
    fewest, most = min(check.totals), max(check.totals)
    ratio = f"; the largest class has {most / fewest:.1f} times the smallest's" if fewest else ""
    lines = [f"images per class: {fewest} to {most}, median {median(check.totals):g}{ratio}"]
    by_size = sorted(check.counts.items(), key=lambda item: -sum(item[1]))
    if len(by_size) <= 2 * _EXTREMES:
        return [*lines, f"classes: {_classes(by_size)}"]
    ends = (("largest", by_size[:_EXTREMES]), ("smallest", by_size[-_EXTREMES:]))
    return [*lines, *(f"{which}: {_classes(classes)}" for which, classes in ends)]


def _classes(classes: Sequence[tuple[str, tuple[int, int]]]) -> str:
    return ", ".join(f"{name} {train} + {test}" for name, (train, test) in classes)


def _shapes(shapes: Shapes) -> list[str]:
    lines = [f"{shapes.images} images; sides {shapes.shortest} to {shapes.longest} pixels, median {shapes.median}"]
    if shapes.oblong:
        lines.append(f"{shapes.oblong} images are not square: the central square counts, unless data.crop is stretch")
    if shapes.animated:
        lines.append(f"{shapes.animated} images have several frames: the first counts")
    return lines


def _listed(title: str, items: Sequence[str]) -> list[str]:
    if not items:
        return []
    more = [f"    and {len(items) - _MOST_LINES} more"] if len(items) > _MOST_LINES else []
    return [f"  {len(items)} {title}:", *(f"    {item}" for item in items[:_MOST_LINES]), *more]


def _verdict(check: OwnCheck) -> str:
    counts = ((len(check.faults), "faults"), (len(check.shared), "private pictures among the public ones"))
    return ", ".join(f"{count} {what}" for count, what in counts if count)
