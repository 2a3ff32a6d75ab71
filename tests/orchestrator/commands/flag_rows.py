"""A row of the table of flags: what is typed, what arrives, and the test of what the flag is for."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Flag:
    """typed: after the flag, apart by blanks; arrives: name of an argument of the work, dotted -> its value; instead:
    what of the command's arguments it stands in the place of, where it excludes them."""

    typed: str
    arrives: dict[str, Any]
    test: str
    instead: str = ""


COMMANDS = "orchestrator/commands/"
CLI, HERE = "orchestrator/test_cli.py", f"{COMMANDS}test_flag_effects.py"


def flag(typed: str, test: str, *, instead: str = "", **arrives: Any) -> Flag:
    """Arguments whose names have a dot are written with two underscores."""
    dotted = {name.replace("__", "."): value for name, value in arrives.items()}
    return Flag(typed=typed, test=test, arrives=dotted, instead=instead)
