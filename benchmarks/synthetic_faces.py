"""How many synthetic faces a second: `python -m benchmarks.synthetic_faces`."""

from __future__ import annotations

import time

from smoothsweep.core.data.synthetic import synthetic_faces

_IDENTITIES = 50
_PER_IDENTITY = 20
_REPEATS = 3


def measure() -> dict[str, float]:
    """Images per second at 64 x 64: {"1 thread": ..., "2 threads": ...}, the best of three runs each."""
    return {
        f"{threads} thread{'s' if threads > 1 else ''}": max(_rate(threads) for _ in range(_REPEATS))
        for threads in (1, 2)
    }


def main() -> None:
    """Print one line per number of threads."""
    for name, rate in measure().items():
        print(f"synthetic faces, 64x64, {name}: {rate:.0f} images/s")


def _rate(threads: int) -> float:
    start = time.perf_counter()
    synthetic_faces(population="public", identities=_IDENTITIES, per_identity=_PER_IDENTITY, seed=0, threads=threads)
    return _IDENTITIES * _PER_IDENTITY / (time.perf_counter() - start)


if __name__ == "__main__":
    main()
