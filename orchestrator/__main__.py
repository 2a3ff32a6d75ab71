"""Where the command starts: told to end from its first moment on, while everything else is still being imported.

`python -m orchestrator` is `smoothsweep`: what `ray job submit --working-dir .` runs without installing us.
"""

import os
import signal
import sys
from types import FrameType

EXIT_INTERRUPTED = 130


def _end(number: int, frame: FrameType | None) -> None:
    """Nothing has begun, so there is nothing to put in order."""
    os.write(2, b"smoothsweep: interrupted; the same command goes on from here\n")
    os._exit(EXIT_INTERRUPTED)


def main() -> int:
    """Run the command. Returns its exit code: 130 where it was interrupted, however early."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _end)
    from smoothsweep.orchestrator.cli import main as run  # takes a good part of a second

    return run()


if __name__ == "__main__":
    sys.exit(main())
