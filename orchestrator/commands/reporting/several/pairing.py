"""Whether the recipes of two sweeps may be compared, and why not: data, protocol, judge, attacks and seeds."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from smoothsweep.core.judges.columns import metric_of
from smoothsweep.orchestrator.commands.reporting.comparable.conditions import AttackNote, Condition, Settings
from smoothsweep.orchestrator.commands.reporting.several.side import ComparedSweep
from smoothsweep.orchestrator.reading.numbers.format import count, listing

MOST_NAMED = 3
"""Settings, and attacks, that a reason names; the rest are counted."""


@dataclass(frozen=True, kw_only=True)
class Pairing:
    """Another sweep beside the first. reasons: why their recipes are not compared, empty where they are."""

    first: str
    other: str
    reasons: tuple[str, ...]

    @property
    def compared(self) -> bool:
        """Whether recipes of the two are compared."""
        return not self.reasons

    @property
    def sentence(self) -> str:
        """The sentence that tells a reader."""
        both = f"{self.first} and {self.other}"
        if self.compared:
            return f"The recipes of {both} are compared: data, protocol, judge, attacks and seeds are the same."
        return f"The recipes of {both} are shown side by side and not compared: {'; '.join(self.reasons)}."


def pair_sweeps(first: ComparedSweep, other: ComparedSweep) -> Pairing:
    """Hold the other sweep's conditions against the first's."""
    checks: tuple[Callable[[ComparedSweep, ComparedSweep], str], ...] = (_protocol, _data, _judge, _attacks, _seeds)
    reasons = tuple(reason for check in checks if (reason := check(first, other)))
    return Pairing(first=first.name, other=other.name, reasons=reasons)


def measured_by_same_judge(first: ComparedSweep, other: ComparedSweep, metric: str) -> bool:
    """Whether one judge measured this metric in both; what no judge measures is alike wherever the data are."""
    mine, theirs = (_of_judge(side, metric) for side in (first, other))
    return mine == theirs if mine or theirs else True


def attacks_of(side: ComparedSweep) -> dict[str, AttackNote]:
    """Digest -> attack, those that recipes are compared under: no controls."""
    controls = (
        set(side.rows.loc[side.rows["attack_control"].astype(bool), "trial"])
        if "attack_control" in side.rows
        else set()
    )
    used = {note.attack for note in side.conditions.trials if note.trial not in controls}
    return {digest: condition for digest, condition in side.conditions.attacks.items() if digest in used}


def _protocol(first: ComparedSweep, other: ComparedSweep) -> str:
    if first.standing.protocol == other.standing.protocol:
        return ""
    return f"the protocols differ ({first.standing.protocol} and {other.standing.protocol})"


def _data(first: ComparedSweep, other: ComparedSweep) -> str:
    for side in (first, other):
        if len(side.conditions.data) > 1:
            return f"{side.name} has several sets of private data"
    mine, theirs = first.conditions.data[0], other.conditions.data[0]
    return "" if mine.digest == theirs.digest else f"the private data differ{_difference(mine, theirs)}"


def _judge(first: ComparedSweep, other: ComparedSweep) -> str:
    for side in (first, other):
        if side.summary.primary is None:
            return f"no leak was measured in {side.name}"
    metric = first.summary.deciding
    spec = metric_of(metric)
    if metric not in other.summary.measured:
        return f"{first.name} is decided by the {spec.label}, which measured nothing in {other.name}"
    if measured_by_same_judge(first, other, metric) or _data(first, other):  # a judge learns from the data
        return ""
    mine, theirs = (side.conditions.judges.get(spec.stage or "", ()) for side in (first, other))
    of_judge = _difference(mine[0], theirs[0], f"judges.{spec.judge}.") if mine and theirs else ""
    return f"the {spec.label} is another one{of_judge}"


def _of_judge(side: ComparedSweep, metric: str) -> tuple[str, ...]:
    conditions = side.conditions.judges.get(metric_of(metric).stage or "", ())
    return tuple(sorted(condition.digest for condition in conditions))


def _attacks(first: ComparedSweep, other: ComparedSweep) -> str:
    mine, theirs = attacks_of(first), attacks_of(other)
    if set(mine) == set(theirs):
        return ""
    only = [
        {digest: condition for digest, condition in a.items() if digest not in b}
        for a, b in ((mine, theirs), (theirs, mine))
    ]
    alike = [
        (condition, two) for condition in only[0].values() for two in only[1].values() if condition.label == two.label
    ]
    if alike:
        mine_alike, theirs_alike = alike[0]
        differing = _settings(mine_alike.settings, theirs_alike.settings) or "other settings"
        return f"the attacks differ ({mine_alike.label}: {differing})"
    lacking = [
        f"only the recipes of {side.name} were attacked by {_listed([attack.label for attack in attacks.values()])}"
        for side, attacks in zip((first, other), only, strict=True)
        if attacks
    ]
    return f"the attacks differ ({'; '.join(lacking)})"


def _seeds(first: ComparedSweep, other: ComparedSweep) -> str:
    if set(first.seeds) & set(other.seeds):
        return ""
    seeds = [f"{side.name}: {listing(map(str, side.seeds)) or 'none finished'}" for side in (first, other)]
    return f"no training seed is in both ({'; '.join(seeds)})"


def _difference(first: Condition, two: Condition, prefix: str = "") -> str:
    """` (data.identities: 48 and 24)`; empty where the settings are the same and only content differs."""
    words = _settings(first.settings, two.settings, prefix)
    return f" ({words})" if words else ""


def _settings(first: Settings, two: Settings, prefix: str = "") -> str:
    keys = [key for key in dict.fromkeys((*first, *two)) if key.startswith(prefix) and first.get(key) != two.get(key)]
    return _listed([f"{key}: {_value(first, key)} and {_value(two, key)}" for key in keys])


def _value(settings: Mapping[str, object], key: str) -> str:
    text = str(settings[key]) if key in settings else "none"
    return text if len(text) <= 40 else f"{text[:37]}..."


def _listed(items: Sequence[str]) -> str:
    rest = len(items) - MOST_NAMED
    return listing([*items[:MOST_NAMED], *([count(rest, "more", "more")] if rest > 0 else [])])
