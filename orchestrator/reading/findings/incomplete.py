"""Sentences on the recipes that an unfinished sweep cannot compare yet, and on the trials that they lack."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from smoothsweep.orchestrator.reading.findings.display import setting_name
from smoothsweep.orchestrator.reading.numbers.complete_cases import CompleteCases
from smoothsweep.orchestrator.reading.numbers.format import count, listing, named
from smoothsweep.orchestrator.reading.numbers.judges import untold
from smoothsweep.orchestrator.reading.numbers.summary import Summary

NAMED = 4
"""The most incomplete recipes that a sentence names; the others are counted."""


def incomplete_lines(summary: Summary) -> tuple[str, ...]:
    """Sentences on judges that can tell no leak, on recipes that lack an attack or a seed, and on attacks that never
    ran; empty if complete."""
    blind = untold(summary.checks)
    if summary.primary is None:
        return blind
    if summary.by_setting:
        return (*blind, *_unfinished_settings(summary))
    cases = summary.cases(summary.primary)
    return (*blind, *incomplete_sentences(cases, planned=summary.attacks))


def _unfinished_settings(summary: Summary) -> tuple[str, ...]:
    """Sentences on settings of an attack that lack seeds."""
    short = [cell for cell in summary.cells.values() if cell["missing"] or cell["failed"]]
    if not short:
        return ()
    lacking = listing(
        f"{named(setting_name(summary, cell))} ({cell['n']} of {cell['n'] + cell['missing'] + cell['failed']} seeds)"
        for cell in short
    )
    return (f"Not finished: {lacking}.",)


def incomplete_sentences(
    cases: CompleteCases, *, planned: Sequence[str], words: Mapping[str, str] | None = None
) -> tuple[str, ...]:
    """Sentences on the recipes and attacks that `cases` leaves incomplete.

    planned: every attack of the sweep, whether it ran or not. words: name in `cases` -> label in sentences; None where
    the names are labels.
    """
    lines, words = [], words or {}
    if cases.missing and cases.attacks:
        sentences = [
            f"{named(words.get(recipe, recipe))} ({_lacks(lacking, words)})"
            for recipe, lacking in list(cases.missing.items())[:NAMED]
        ]
        rest = len(cases.missing) - len(sentences)
        names = listing([*sentences, count(rest, "other recipe")] if rest else sentences)
        lines.append(f"Incomplete, and so compared with no other recipe: {names}.")
    if cases.unused:
        which, them = ("Seed", "it") if len(cases.unused) == 1 else ("Seeds", "them")
        verb = "is" if len(cases.unused) == 1 else "are"
        listed = f"{which} {_listed(cases.unused)} {verb}"
        lines.append(f"{listed} left out, since too few recipes have results of every attack under {them} so far.")
    unmet = [attack for attack in planned if attack not in cases.attacks]
    if unmet and cases.attacks:
        names = listing(words.get(attack, attack) for attack in unmet)
        lines.append(f"No recipe has results of {names} yet; no statement here covers it.")
    return tuple(lines)


def _lacks(lacking: Mapping[str, Sequence[int]], words: Mapping[str, str]) -> str:
    """A phrase such as `lacks Poincaré: seeds 41 and 42`."""
    parts = []
    for attack, seeds in lacking.items():
        which = f"seed{'s' if len(seeds) > 1 else ''} {_listed(seeds)}"
        name = words.get(attack, attack)
        parts.append(f"{name}: {which}" if name else which)
    return f"lacks {'; '.join(parts)}"


def _listed(seeds: Sequence[int]) -> str:
    return listing(str(seed) for seed in seeds)
