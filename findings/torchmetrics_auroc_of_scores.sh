#!/usr/bin/env bash
# AUROC of scores that are no probabilities: torchmetrics passes them through a sigmoid, where large ones become ties.
set -euo pipefail
packages="torch==2.11.0 torchmetrics==1.9.0 scikit-learn==1.9.1 numpy==2.4.6"
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
from sklearn.metrics import roc_auc_score
from torchmetrics.classification import BinaryAUROC

torch.manual_seed(0)
members = torch.arange(2000) % 2
scores = torch.randn(2000) + 2 * members  # such as log-likelihood ratios of a membership attack
seen = []
for shift in (0, 10, 20, 100):
    theirs, reference = BinaryAUROC()(scores + shift, members).item(), roc_auc_score(members, (scores + shift).numpy())
    seen.append((round(theirs, 2), round(reference, 2)))
    print(f"the same scores + {shift}: torchmetrics {theirs:.3f}, scikit-learn {reference:.3f}")
ties = (0.5, 0.92)
sys.exit("the behaviour has changed" if seen != [(0.92, 0.92), (0.92, 0.92), ties, ties] else 0)
EOF
