"""Which trials of a sweep a text selects: names as outputs print them, and settings as key=value, in any order.

A name or a value may hold commas. So the text is not cut at them: from the left, it is read as what the sweep's own
trials are called, the longest first, and goes on behind the next comma. The dots of a trial's name count as commas.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn

from smoothsweep.core.errors import InputError
from smoothsweep.core.spelling import suggestion
from smoothsweep.core.text import MINUS, NBSP, quoted, shortened
from smoothsweep.orchestrator.planning.trial_notes import DOT, TrialNote

_MOST = 20
_LONGEST = 1000  # characters of a selection


def selected(name: str, trials: Sequence[TrialNote], wanted: str) -> tuple[TrialNote, ...]:
    """The trials that all of `wanted` is true of, at least one.

    name: the whole of what the user wrote, for errors. Raises InputError naming what there is.
    """
    if len(wanted) > _LONGEST:
        raise InputError(
            f"{shortened(name)}: expected at most {_LONGEST} characters behind the sweep, got {len(wanted)}"
        )
    known = _known(trials)
    text = _typed(wanted)
    parts = _parts(text, known)
    if parts is None:
        _refuse(name, text, known, trials)
    matches = [trial for index, trial in enumerate(trials) if all(index in part for part in parts)]
    if not matches:
        raise InputError(f"{shortened(name)}: expected trials to which all of it applies, got none")
    return tuple(matches)


def plain_name(text: str) -> str:
    """A name as it can be typed: plain minus signs and single spaces, none at its ends."""
    return " ".join(text.replace(MINUS, "-").replace(NBSP, " ").split())


def _typed(text: str) -> str:
    """As `plain_name`, with a comma for the dot that stands between the parts of a trial's name."""
    return plain_name(text).replace(f" {DOT} ", ", ")


def _known(trials: Sequence[TrialNote]) -> dict[str, set[int]]:
    """What a trial may be called -> the positions of the trials that are."""
    known: dict[str, set[int]] = {}
    short = _short_keys(trials)
    for index, trial in enumerate(trials):
        stated = {name: trial.stated[key] for key, name in short.items() if key in trial.stated}
        settings = {**trial.stated, **stated, **trial.axes, "seed": trial.seed}
        words = [f"{key}={value}" for key, value in settings.items()]
        for text in (trial.recipe, *trial.name.split(f" {DOT} "), *trial.label.split(f" {DOT} "), *words):
            if text:
                known.setdefault(_typed(text), set()).add(index)
    return known


def _short_keys(trials: Sequence[TrialNote]) -> dict[str, str]:
    """Dotted key of a setting -> the shortest of its endings that is no other setting's: recipe.defense.alpha -> alpha.

    A key that is an axis of its own has the axis's name already, which goes before.
    """
    keys = list(dict.fromkeys(key for trial in trials for key in trial.stated))
    endings: dict[str, set[str]] = {}
    for key in keys:
        parts = key.split(".")
        for start in range(len(parts)):
            endings.setdefault(".".join(parts[start:]), set()).add(key)
    taken = {axis for trial in trials for axis in trial.axes} | {"seed"}
    short = {}
    for ending, owners in sorted(endings.items(), key=lambda item: len(item[0])):
        if len(owners) == 1 and ending not in taken:
            short.setdefault(next(iter(owners)), ending)
    return short


def _parts(text: str, known: dict[str, set[int]]) -> list[set[int]] | None:
    """The trials of each part of the text; None where it cannot be read."""
    ends = [index for index, character in enumerate(text) if character == ","] + [len(text)]
    read: dict[int, list[set[int]] | None] = {len(text) + 1: []}  # place -> the parts from there on
    for start in reversed([0, *(end + 1 for end in ends[:-1])]):
        read[start] = None
        for end in reversed([end for end in ends if end >= start]):  # the longest first
            rest = read[end + 1]
            if rest is not None and (part := _one(text[start:end].strip(), known)):
                read[start] = [part, *rest]
                break
    return read[0]


def _one(text: str, known: dict[str, set[int]]) -> set[int]:
    """The trials that are called so; a number may be written in another way."""
    if text in known:
        return known[text]
    key, equals, value = text.partition("=")
    number = _number(value)
    if not equals or number is None:
        return set()
    alike = (
        candidate
        for candidate in known
        if candidate.startswith(f"{key}=") and _number(candidate[len(key) + 1 :]) == number
    )
    return set().union(*(known[candidate] for candidate in alike))


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _refuse(name: str, text: str, known: dict[str, set[int]], trials: Sequence[TrialNote]) -> NoReturn:
    """Say what of the text is not known: the value of a known key, or the whole."""
    keys = list(dict.fromkeys([*(axis for trial in trials for axis in trial.axes), *_short_keys(trials).values()]))
    recipes = list(dict.fromkeys(trial.recipe for trial in trials if trial.recipe))
    key, equals, _ = _first_unknown(text, known).partition("=")
    if equals and key in (*keys, "seed"):
        values = [candidate[len(key) + 1 :] for candidate in sorted(known) if candidate.startswith(f"{key}=")]
        message = f"expected trials with these values, got none; {key} is one of {', '.join(values[:_MOST])}"
        raise InputError(f"{shortened(name)}: {message}")
    expected = f"expected axis=value with an axis of {', '.join([*keys, 'seed'][:_MOST])}"
    if recipes:
        expected = f"{expected}, or a recipe's name ({'; '.join(map(plain_name, recipes[:_MOST]))})"
    got = _first_unknown(text, known)
    near = suggestion(key, [*keys, "seed"]) if equals else suggestion(got, [plain_name(recipe) for recipe in recipes])
    raise InputError(f"{shortened(name)}: {expected}, got {quoted(got)}{near}")


def _first_unknown(text: str, known: dict[str, set[int]]) -> str:
    """What is left of the text behind the parts that are known, up to the next comma."""
    rest = text
    while "," in rest:
        ends = [index for index in range(len(rest) - 1, -1, -1) if rest[index] == ","]
        end = next((end for end in ends if _one(rest[:end].strip(), known)), None)
        if end is None:
            break
        rest = rest[end + 1 :].strip()
    return rest.partition(",")[0]
