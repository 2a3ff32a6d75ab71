"""What the pages of an audit say of what there was no time for, or no queries."""

from __future__ import annotations

import math
from dataclasses import replace

from smoothsweep.core.attacks.registry import make_attack
from smoothsweep.core.durations import duration
from smoothsweep.orchestrator.commands.audit.rounds import Asked, Round
from smoothsweep.orchestrator.commands.audit.subject import AuditRequest


def attacks_left(asked: Asked, done: Round, *, until_s: float) -> tuple[str, ...]:
    """A sentence on the attacks of the portfolio that a finished audit has not tried, though the model allows them.

    until_s: seconds from the command's beginning until they would be done.
    """
    whole, tried = asked.attacks(replace(done, reach="whole")), asked.attacks(done)
    left = [one for one in whole if one not in tried]
    if not left:
        return ()
    words = "; ".join(make_attack(**one).words for one in left)  # which have commas
    if not asked.allowance.covers(whole, seeds=len(done.seeds)):
        return (f"Not tried with {len(done.seeds)} seeds: {words}; the same command with more --queries tries more.",)
    minutes = max(math.ceil(until_s / 60) + 1, math.floor(asked.request.minutes) + 1)
    return (
        f"Not tried, for lack of time: {words}. The same command with --minutes {minutes} or more goes on with them.",
    )


def seeds_left(request: AuditRequest, done: Round, *, next_s: float) -> str:
    """A sentence where --seeds asked for more than there was time for. next_s: what the next one takes, in seconds."""
    return (
        f"--seeds {request.seeds} was asked for; --minutes {request.minutes:g} were enough for {len(done.seeds)}: the "
        f"next takes about {duration(next_s)} on this machine. The same command with more minutes goes on."
    )
