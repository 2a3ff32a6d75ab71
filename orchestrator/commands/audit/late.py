"""What an audit has no time for, or no queries: which attacks the first answer waits for, and what the pages say."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from smoothsweep.core.attacks.registry import make_attack
from smoothsweep.core.audit.portfolio import portfolio
from smoothsweep.core.durations import duration
from smoothsweep.orchestrator.commands.audit.forecast import is_done
from smoothsweep.orchestrator.commands.audit.rounds import FIRST, Round
from smoothsweep.orchestrator.commands.audit.sweep_file import untried
from smoothsweep.orchestrator.store.opening import open_store

if TYPE_CHECKING:
    from smoothsweep.orchestrator.commands.audit.work import Work


def of_first_answer(work: Work, attacks: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The attacks that the first answer waits for: where the model is asked at an agreed pace, the one that asks least
    and as many others as --minutes hold, and whatever is in the store already."""
    allowance = work.allowance
    if allowance.queries is None:
        return list(attacks)
    kept = list[dict[str, Any]]()
    asks_least = sorted(attacks, key=lambda one: allowance.asked([one]))
    for one in asks_least:
        is_first = not allowance.asked(kept)
        within = allowance.seconds([*kept, one], seeds=1) <= 60 * work.request.minutes
        if is_first or within or is_done(work.tree(FIRST, membership=False, attacks=[one]), open_store(work.store)):
            kept.append(one)
    return [one for one in attacks if one in kept]


def left_out(work: Work) -> tuple[str, ...]:
    """A sentence on every attack that the model cannot give enough for, or may not be asked enough for."""
    every = portfolio(work.access, whole=True)
    return (*untried(work.request.access, work.card), *work.allowance.left_out(every))


def attacks_left(work: Work, done: Round) -> tuple[str, ...]:
    """A sentence on the attacks of the portfolio that a finished audit has not tried, though the model allows them."""
    whole, tried = replace(done, reach="whole"), work.attacks_of(done)
    left = [one for one in work.attacks_of(whole) if one not in tried]
    if not left:
        return ()
    words = "; ".join(make_attack(**one).words for one in left)  # which have commas
    if not work.allowance.covers(work.attacks_of(whole), seeds=len(done.seeds)):
        return (f"Not tried with {len(done.seeds)} seeds: {words}; the same command with more --queries tries more.",)
    minutes = math.ceil((work.spent + work.seconds_of(whole, after=done)) / 60)
    return (
        f"Not tried, for lack of time: {words}. The same command with --minutes "
        f"{max(minutes + 1, math.floor(work.request.minutes) + 1)} or more goes on with them.",
    )


def seeds_left(work: Work, done: Round) -> tuple[str, ...]:
    """A sentence where --seeds asked for more than there was time for."""
    more = done.further
    if len(done.seeds) >= work.request.seeds or more is None:
        return ()
    return (
        f"--seeds {work.request.seeds} was asked for; --minutes {work.request.minutes:g} were enough for "
        f"{len(done.seeds)}: the next takes about {duration(work.seconds_of(more, after=done))} on this machine. The "
        "same command with more minutes goes on.",
    )
