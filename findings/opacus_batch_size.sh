#!/usr/bin/env bash
# Opacus derives its expected batch from the number of batches: 64 of 100 images become 50, with drop_last 100.
set -euo pipefail
packages="torch==2.11.0 opacus==1.6.0 numpy==2.4.6"
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

import logging

import torch
from opacus import PrivacyEngine
from torch.utils.data import DataLoader, TensorDataset

logging.disable(logging.WARNING)
data = TensorDataset(torch.zeros(100, 3), torch.zeros(100, dtype=torch.long))


def private(batch_size, drop_last):
    """Expected batch, sampling rate, and epsilon after 50 steps at delta 1e-5."""
    network = torch.nn.Linear(3, 2)
    engine = PrivacyEngine(accountant="rdp")
    _, optimizer, loader = engine.make_private(
        module=network,
        optimizer=torch.optim.SGD(network.parameters(), 0.1),
        data_loader=DataLoader(data, batch_size=batch_size, drop_last=drop_last),
        noise_multiplier=2.0,
        max_grad_norm=1.0,
    )
    for _ in range(50):
        engine.accountant.step(noise_multiplier=2.0, sample_rate=loader.sample_rate)
    return optimizer.expected_batch_size, loader.sample_rate, engine.get_epsilon(1e-5)


seen = {}
for batch_size, drop_last in ((50, False), (64, False), (99, False), (64, True), (99, True)):
    expected, rate, epsilon = private(batch_size, drop_last)
    seen[batch_size, drop_last] = (expected, rate)
    print(f"batch_size={batch_size} drop_last={drop_last}: {expected} images, rate {rate}, epsilon {epsilon:.1f}")
half, whole = (50, 0.5), (100, 1.0)
sys.exit("the behaviour has changed" if list(seen.values()) != [half, half, half, whole, whole] else 0)
EOF
