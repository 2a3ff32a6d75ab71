"""The errors that carry a sentence for the person who runs a sweep."""

from smoothsweep.core.text import printable
from smoothsweep.core.uris import hidden


class InputError(ValueError):
    """Something the user gave is wrong. The message is one printable line: what, where, expected, got. Exit code 2.

    No URI in it shows its user, query or fragment.
    """

    def __init__(self, message: str) -> None:
        super().__init__(printable(hidden(message)))


class InputChanged(InputError):
    """A file from outside is not what it was when a stage was planned: under this fingerprint nothing is made of it."""


class CodeChanged(InputError):
    """The code on this machine is not what the run began with: under its version nothing is made of it."""


class TrainingDiverged(RuntimeError):
    """A loss or a weight stopped being finite. The message says at which epoch and step, and under which alpha."""


class NotFinite(ValueError):
    """NaN or infinity where a finite number belongs. The message says where; who knows the stage says which."""


class AccuracyNotReached(RuntimeError):
    """A training that was to stop at a test accuracy ended below it. The message says which, the best, and when."""


class SweepStopped(RuntimeError):
    """The sweep was stopped on purpose (its budget is spent): the message says why. What was open stays open."""


class ArtifactDamaged(InputError):
    """Something in the store is not what it was, and no longer in the way: what it was made from makes it again."""


class StoreGone(InputError):
    """The store has disappeared under a run: moved, deleted, unmounted. Nothing is made anew in its place."""
