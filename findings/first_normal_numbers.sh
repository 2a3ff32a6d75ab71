#!/usr/bin/env bash
# The first n normal numbers of a seed depend on how many are drawn at once: 15 and 16 share none.
set -euo pipefail
packages="torch==2.11.0 numpy==2.4.6"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
if [ -z "${FINDINGS_VENV:-}" ]; then
  python3 -m venv venv
  venv/bin/pip install --quiet --disable-pip-version-check $packages
fi
"${FINDINGS_VENV:-$work/venv}/bin/python" -W ignore - $packages <<'EOF'
import sys
from importlib.metadata import version

for name, wanted in (pin.split("==") for pin in sys.argv[1:]):
    if version(name.split("[")[0]).split("+")[0] != wanted:
        sys.exit(f"this finding is about {name} {wanted}; installed is {version(name)}")
print("versions:", *sys.argv[1:])

import torch


def normal(*shape):
    """Drawn on the CPU from seed 0."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0))


seen = {}
for count, more in ((8, 15), (15, 16), (16, 32), (100, 101), (100, 112), (512, 1024)):
    seen[count, more] = int((normal(count) == normal(more)[:count]).sum())
    print(f"{seen[count, more]} of the first {count} are the same where {more} are drawn")
for width in (8, 100, 512):
    stream = torch.Generator().manual_seed(0)
    rows = torch.cat([torch.randn(1, width, generator=stream) for _ in range(4)])
    seen[width] = int((rows == normal(4, width)).all(dim=1).sum())
    print(f"4 latents of {width} numbers, one after the other against at once: {seen[width]} rows are the same")
expected = {(8, 15): 8, (15, 16): 0, (16, 32): 16, (100, 101): 98, (100, 112): 84, (512, 1024): 512, 8: 0, 100: 0, 512: 4}
sys.exit("the behaviour has changed" if seen != expected else 0)
EOF
