"""What the values of the options of `smoothsweep slurm` have to be."""

from __future__ import annotations

import re
import sys

from smoothsweep.core.errors import InputError

DAY, HOUR, MINUTE = 86400, 3600, 60
_TIME = re.compile(r"(?:(?P<d>\d+)-)?(?P<a>\d+)(?::(?P<b>\d+))?(?::(?P<c>\d+))?")
_ARRAY = re.compile(r"(?P<first>\d+)-(?P<last>\d+)(?:%(?P<at_once>\d+))?")
LEAST_GRACE_S = 120
_MEMORY = re.compile(r"[0-9]{1,12}(?:[KMGT]B?)?", re.IGNORECASE)
OF_THE_SCRIPT = {
    "--nodes": "--nodes",
    "-N": "--nodes",
    "--gpus-per-node": "--gpus-per-node",
    "--cpus-per-task": "--cpus-per-node",
    "-c": "--cpus-per-node",
    "--mem": "--mem",
    "--time": "--time",
    "-t": "--time",
    "--array": "--array",
    "-a": "--array",
    "--signal": "--grace",
    "--ntasks": "",
    "-n": "",
    "--ntasks-per-node": "",
    "--requeue": "",
    "--no-requeue": "",
    "--wrap": "",
}
"""Options of sbatch that the scripts set -> that of `smoothsweep slurm` for it, empty where there is none."""
_ONE_WORD = re.compile(r"[^\s\x00-\x1f]+")


def whole(option: str, text: str | None, least: int, default: int = 0) -> int:
    """A whole number of an option. Raises InputError for anything else, and for one below `least`."""
    if text is None:
        return default
    if not text.isascii() or not text.isdigit() or len(text) > 9 or int(text) < least:
        raise InputError(f"{option} {text}: expected a whole number of at least {least}, got {text!r}")
    return int(text)


def seconds_of_limit(text: str) -> int:
    """Seconds of a time limit as sbatch reads it: minutes, minutes:seconds, h:m:s, days-h, days-h:m, days-h:m:s.

    Raises InputError for anything else.
    """
    match = _TIME.fullmatch(text)
    if match is None or len(text) > 20:
        raise InputError(f"--time {text}: expected a time limit as in 12:00:00, 2-00 or 90 (minutes), got {text!r}")
    days, a, b, c = (None if match[name] is None else int(match[name]) for name in ("d", "a", "b", "c"))
    if days is not None:
        return days * DAY + (a or 0) * HOUR + (b or 0) * MINUTE + (c or 0)
    if c is not None:
        return (a or 0) * HOUR + (b or 0) * MINUTE + c
    return (a or 0) * MINUTE + (b or 0)


def elements(text: str) -> int:
    """How many workers an array has at once at most. Raises InputError for what is no range."""
    match = _ARRAY.fullmatch(text)
    if match is None or int(match["last"]) < int(match["first"]) or match["at_once"] == "0":
        raise InputError(f"--array {text}: expected a range of workers as in 0-7 or 0-31%8, got {text!r}")
    count = int(match["last"]) - int(match["first"]) + 1
    return min(count, int(match["at_once"])) if match["at_once"] else count


def one_word(option: str, text: str) -> str:
    """A value that stands in a `#SBATCH` line. Raises InputError for one with blanks or control characters."""
    if not _ONE_WORD.fullmatch(text):
        raise InputError(f"{option}: expected one word, got {text!r}")
    return text


def further_option(text: str) -> str:
    """An option of sbatch as it stands in a `#SBATCH` line. Raises InputError for one that the script sets itself."""
    option = one_word("--sbatch", text)
    if not option.startswith("-"):
        raise InputError(f"--sbatch {text}: expected an option of sbatch, as in --sbatch=--exclusive, got {text!r}")
    name = option.partition("=")[0]
    if name in OF_THE_SCRIPT:
        ours = OF_THE_SCRIPT[name]
        instead = f"{ours} instead" if ours else "nothing in its place: the script needs its own"
        raise InputError(f"--sbatch {text}: expected {instead}, got {name}")
    return option


def memory(text: str) -> str:
    """The value of --mem. Raises InputError for what sbatch does not read as an amount."""
    if not _MEMORY.fullmatch(text):
        raise InputError(f"--mem {text}: expected an amount of memory as in 64G, got {text!r}")
    return text


def this_python() -> tuple[str, ...]:
    return (sys.executable,)
