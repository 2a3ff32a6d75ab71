"""Why the reconstructions of an audit were not verified, in one sentence. Loads no torch."""

from __future__ import annotations

from smoothsweep.core.metrics.metric import FIRST, RATES, strangers_needed

CLOSED_SET_NOTE = (
    "Not verified: the judge is a second classifier of the same images, which cannot say whom a face recogniser would "
    "accept"
)


def few_strangers_note(images: int) -> str:
    """A sentence on why too few public images allow no verification."""
    needed = strangers_needed(RATES[FIRST])
    return f"Not verified: a threshold of 1 % false accepts takes {needed} public images or more, there are {images}"
