"""What importing an official 1024-pixel pickle costs: `python -m benchmarks.import_prior`."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]
TARGET_SECONDS, TARGET_GIB = 5.0, 1.5
_ROUNDS = 3
_GIB = 2**30

_WRITE = """
import sys
sys.path.insert(0, "tests")
from smoothsweep.core.priors.stylegan2_settings import StyleGAN2Config
from official_pickle import write_official_pickle
write_official_pickle(sys.argv[1], StyleGAN2Config(), converted=True)
"""

# The peak comes from VmHWM: what getrusage tells of a child includes the parent that forked it.
_IMPORT = """
import json, sys, time
from pathlib import Path
from smoothsweep.core.priors.official.importer import import_prior
from smoothsweep.core.priors.official.writing import write_imported_prior

def peak():
    lines = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return int(lines["VmHWM"].split()[0]) * 1024

before, start = peak(), time.perf_counter()
imported = import_prior(Path(sys.argv[1]))
read, read_peak = time.perf_counter() - start, peak()
write_imported_prior(imported, Path(sys.argv[2]))
networks = (imported.generator, imported.discriminator)
tensors = sum(value.nbytes for network in networks for value in network.state_dict().values())
print(json.dumps({
    "file": imported.facts.bytes, "opcodes": imported.facts.opcodes, "tensors": tensors, "before": before,
    "read": read, "read_peak": read_peak, "both": time.perf_counter() - start, "both_peak": peak(),
}))
"""


def measure() -> list[dict[str, float]]:
    """Seconds and bytes of each round; every round is a process of its own, the file is in the page cache."""
    with tempfile.TemporaryDirectory() as directory:
        file = Path(directory) / "random1024.pkl"
        _run(_WRITE, file)
        return [json.loads(_run(_IMPORT, file, Path(directory) / f"prior{round_}")) for round_ in range(_ROUNDS)]


def main() -> None:
    """Print the best time and the highest peak of three rounds, beside the targets."""
    rounds = measure()
    first = rounds[0]
    print(
        f"file: {first['file'] / 1e6:.1f} MB, {first['opcodes']:.0f} opcodes; tensors kept: "
        f"{first['tensors'] / _GIB:.2f} GiB"
    )
    for name, seconds, peak in (("read", "read", "read_peak"), ("read and write", "both", "both_peak")):
        best = min(row[seconds] for row in rounds)
        worst = max(row[peak] - row["tensors"] for row in rounds)
        own = max(row[peak] - row["tensors"] - row["before"] for row in rounds)
        print(
            f"{name}: {best:.2f} s (target {TARGET_SECONDS:g}), peak above the tensors {worst / _GIB:.2f} GiB "
            f"(target {TARGET_GIB:g}), of which {own / _GIB:.2f} GiB are not the loaded libraries"
        )


def _run(code: str, *arguments: Path) -> str:
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.run(command, cwd=REPOSITORY, check=True, capture_output=True, text=True).stdout


if __name__ == "__main__":
    main()
