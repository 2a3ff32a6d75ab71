#!/usr/bin/env bash
# A state dictionary that torch.save writes with pickle_protocol=4 or 5 is refused by torch.load as it comes.
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

import pickle

import torch


def read(path, **options):
    """The tensor, or the line that says why there is none."""
    try:
        return torch.load(path, **options)["weight"].tolist()
    except pickle.UnpicklingError as error:
        return next(part for part in str(error).splitlines() if part.startswith("Unsupported"))


seen = {}
for protocol in range(2, 6):
    for zipped in (True, False):
        path = f"{protocol}-{zipped}.pt"
        torch.save({"weight": torch.ones(2)}, path, pickle_protocol=protocol, _use_new_zipfile_serialization=zipped)
        seen[protocol, zipped] = read(path)
        print(f"protocol {protocol}, {'zip' if zipped else 'older form'}: {seen[protocol, zipped]}")
with torch.serialization.safe_globals([torch._utils._rebuild_tensor_v2, dict]):
    named = read("4-True.pt")
print("with its functions named as safe:", named, "- and with weights_only=False:", read("4-True.pt", weights_only=False))
refused = "Unsupported operand 149"
expected = {(p, z): [1.0, 1.0] if p < 4 else refused for p in range(2, 6) for z in (True, False)}
sys.exit("the behaviour has changed" if seen != expected or named != refused else 0)
EOF
