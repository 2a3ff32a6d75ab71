"""Which pictures two sets share, or one has twice: the very same ones, and those that only look it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from smoothsweep.core.data.labelling import assign_labels
from smoothsweep.core.data.listing import few
from smoothsweep.core.data.own.aligned import same_photographs
from smoothsweep.core.data.own.fit import Fit, fit_of
from smoothsweep.core.data.own.perceptual import ALIKE, NEAR, correlations, nearest
from smoothsweep.core.data.own.scanning import ScannedPictures, scan_pictures
from smoothsweep.core.data.sources import list_labelled, list_unlabelled
from smoothsweep.core.errors import InputError

Pairs = tuple[tuple[str, str], ...]
"""Names of two pictures each: that of the first set, or the later one, comes first."""


def identical_pairs(some: ScannedPictures, others: ScannedPictures | None = None) -> Pairs:
    """Pictures of `some` that the others have too, pixel by pixel. others: None for those of `some` before them."""
    if others is not None:
        known = dict(zip(others.digests, others.where, strict=True))
        return tuple((name, known[digest]) for name, digest in _named(some) if digest in known)
    first: dict[bytes, str] = {}
    pairs = ((name, first.setdefault(digest, name)) for name, digest in _named(some))
    return tuple((name, earlier) for name, earlier in pairs if earlier != name)


def similar_pairs(some: ScannedPictures, others: ScannedPictures | None = None) -> Pairs:
    """Pictures of `some` that look like another one; `identical_pairs` finds those that are equal.

    Of alike pictures at most 4 of 64 bits differ, and their grey levels correlate by 0.85 or more. others: None for
    those of `some` that come before. Each picture is named once, with the nearest.
    """
    known = {name for name, _ in identical_pairs(some, others)}
    rows = np.array([row for row, name in enumerate(some.where) if name not in known], dtype=np.int64)
    left = some.at(rows)
    against = left if others is None else others
    index, distance = nearest(left.hashes, None if others is None else others.hashes)
    near = np.flatnonzero(distance <= NEAR)
    near = near[correlations(left.small[near], against.small[index[near]]) >= ALIKE]
    return tuple((left.where[row], against.where[index[row]]) for row in near)


def reframed_pairs(some: ScannedPictures, others: ScannedPictures) -> Pairs:
    """Pictures of `some` that show a photograph of `others` in another crop, shift, turn or mirror."""
    index, _ = same_photographs(some.small, others.small)
    return tuple((some.where[row], others.where[index[row]]) for row in np.flatnonzero(index >= 0))


def fit_to(private: ScannedPictures, labels: np.ndarray, public: ScannedPictures) -> Fit | None:
    """How the public pictures fit the private ones, whose labels [n] are given; None where there are too few."""
    return fit_of(private.small, labels, public.small)


def refuse_shared(private: Path, public: Path) -> tuple[Pairs, tuple[str, ...]]:
    """Raise InputError where a picture of labelled `private` is in `public` too, or where these show another kind of
    thing; gives the pictures that only look alike or show the same photograph, and why the public ones may not fit.

    Pictures that cannot be read are passed over: loading them says so.
    """
    entries, folders = list_labelled(private)
    private_looks, others = scan_pictures(entries), scan_pictures(list_unlabelled(public))
    labels = assign_labels(entries, folders, private)[0].numpy()[private_looks.index]
    refuse_identical(private, public, identical_pairs(private_looks, others))
    return near_and_doubts(private_looks, labels, others, what=f"--public {public}", private=f"in {private}")


def near_and_doubts(
    own: ScannedPictures, labels: np.ndarray, others: ScannedPictures, *, what: str, private: str
) -> tuple[Pairs, tuple[str, ...]]:
    """The private pictures that look like a public one or show the same photograph, and why the public ones may not
    fit.

    Args:
        labels: int64 [n], whom each private picture shows.
        what, private: The two sets in a refusal.

    Raises InputError where the public ones show another kind of thing.
    """
    near = dict((*reframed_pairs(own, others), *similar_pairs(own, others)))
    fit = fit_to(own, labels, others)
    if fit is not None and fit.is_refused:
        raise InputError(
            f"{what}: expected the same kind of picture as {private}, got another: a prior made of them misses "
            f"{fit.unexplained:.1f} times as much of the private pictures as a prior made of private ones"
        )
    return tuple(near.items()), () if fit is None else fit.doubts


def warnings_of(pairs: Pairs, doubts: tuple[str, ...], *, private: str, named: bool = True) -> tuple[str, ...]:
    """A sentence for the doubts, and one for the pictures that look alike. private: what the private set is called;
    named: whether these pictures are."""
    warnings = [f"{'; '.join(doubts)}; a low leak may then be the attacker's weakness"] if doubts else []
    if pairs:
        changed = "cropped, mirrored or saved again"
        some = f"1 picture of {private} is, or looks like, a public one that was {changed}"
        if len(pairs) > 1:
            some = f"{len(pairs)} pictures of {private} are, or look like, public ones that were {changed}"
        which = f": {few(pair_labels(pairs, '~'))}" if named else ""
        warnings.append(f"{some}{which}; an attack that draws them may have drawn what was public")
    return tuple(warnings)


def refuse_identical(private: Path, public: Path, pairs: Pairs) -> None:
    """Raise InputError naming them if there are any."""
    if pairs:
        expected = f"expected none of the pictures in {private}, got {len(pairs)} of them"
        raise InputError(f"--public {public}: {expected}: {few(pair_labels(pairs, '='))}")


def pair_labels(pairs: Pairs, sign: str) -> Sequence[str]:
    """Pairs as they are shown, e.g. "row 3 = row 7"."""
    return [f"{name} {sign} {other}" for name, other in pairs]


def _named(seen: ScannedPictures) -> zip[tuple[str, bytes]]:
    return zip(seen.where, seen.digests, strict=True)
