#!/usr/bin/env bash
# Opacus's ModuleValidator.fix: GroupNorm starts anew, so a trained network's scales and shifts are lost without a word.
set -euo pipefail
packages="torch==2.11.0 torchvision==0.26.0 opacus==1.6.0 numpy==2.4.6"
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
from opacus.validators import ModuleValidator
from torchvision.models import resnet18

torch.manual_seed(0)
network = resnet18(num_classes=10)
for module in network.modules():
    if isinstance(module, torch.nn.BatchNorm2d):  # as training leaves them: neither one nor nought
        torch.nn.init.uniform_(module.weight, 0.2, 0.5)
        torch.nn.init.uniform_(module.bias, -0.3, 0.3)
fixed = ModuleValidator.fix(network)
kept = {name: torch.equal(value, fixed.state_dict()[name]) for name, value in network.named_parameters()}
norms = [name for name in kept if ".bn" in f".{name}" or "downsample.1" in name]
lost = [name for name in norms if not kept[name]]
unit = all(fixed.state_dict()[name].eq(1.0 if name.endswith("weight") else 0.0).all() for name in norms)
print(f"{len(lost)} of {len(norms)} scales and shifts of normalisation are lost; all are one and nought: {bool(unit)}")
print(f"of the other {len(kept) - len(norms)} parameters {sum(kept.values())} are kept")
changed = len(norms) != 40 or lost != norms or not unit or sum(kept.values()) != len(kept) - len(norms)
sys.exit("the behaviour has changed" if changed else 0)
EOF
