"""A clock that can be set: every Python with this folder on its path adds the seconds in the file DRILL_CLOCK names.

Not libfaketime: with the monotonic clock left alone its `time.sleep` fails (EINVAL), and with it shifted Ray does not
start. What is written in C++ (Ray's own core) keeps the machine's clock.
"""

import os
import time

_real, _real_ns, _file = time.time, time.time_ns, os.environ.get("DRILL_CLOCK", "")


def _offset() -> float:
    try:
        with open(_file) as clock:
            return float(clock.read())
    except (OSError, ValueError):
        return 0.0


def _shifted() -> float:
    return _real() + _offset()


def _shifted_ns() -> int:
    return _real_ns() + int(_offset() * 1e9)


time.time, time.time_ns = _shifted, _shifted_ns
