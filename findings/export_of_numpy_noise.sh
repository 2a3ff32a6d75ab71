#!/usr/bin/env bash
# Noise drawn by NumPy: torch.export freezes one draw by default; with strict=True the program draws anew.
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

import numpy as np
import torch


class ByNumpy(torch.nn.Module):
    def forward(self, x):
        return x + torch.from_numpy(np.random.normal(size=x.shape))


class ByTorch(torch.nn.Module):
    def forward(self, x):
        return x + torch.randn_like(x)


x, seen = torch.zeros(3, 4, dtype=torch.float64), {}
for network in (ByNumpy(), ByTorch()):
    for strict in (False, True):
        program = torch.export.export(network, (x,), strict=strict).module()
        fresh, other = not torch.equal(program(x), program(x)), []
        for _ in range(2):
            np.random.seed(0)
            other.append(program(x))
        seen[type(network).__name__, strict] = (fresh, torch.equal(*other))
        repeated = torch.equal(*other)
        print(f"{type(network).__name__} strict={strict}: fresh {fresh}, np.random.seed repeats it {repeated}")
frozen, drawn = (False, True), (True, False)
sys.exit("the behaviour has changed" if list(seen.values()) != [frozen, drawn, drawn, drawn] else 0)
EOF
