#!/usr/bin/env bash
# A loss below zero, as negative label smoothing has it: relative thresholds take standing still, and slow rising, for progress.
set -euo pipefail
packages="torch==2.11.0 skorch==1.4.0 numpy==2.4.6"
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

from types import SimpleNamespace

import torch
from skorch.callbacks import EarlyStopping
from skorch.history import History
from torch.optim.lr_scheduler import ReduceLROnPlateau


def rate_after(losses, **settings):
    """The learning rate, which begins at 1, and the best loss that the scheduler knows."""
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=1.0)
    scheduler = ReduceLROnPlateau(optimizer, patience=3, **settings)
    for loss in losses:
        scheduler.step(loss)
    return optimizer.param_groups[0]["lr"], scheduler.best


def stopped_after(losses):
    """The epoch in which skorch's early stopping ends the training, None if it does not."""
    net, stop = SimpleNamespace(history=History(), verbose=0), EarlyStopping(patience=3, load_best=False)
    stop.on_train_begin(net)
    for epoch, loss in enumerate(losses, 1):
        net.history.new_epoch()
        net.history.record("epoch", epoch)
        net.history.record("valid_loss", loss)
        try:
            stop.on_epoch_end(net)
        except KeyboardInterrupt:  # how skorch ends a training
            return epoch
    return None


seen = []
for loss in (5.0, -5.0):
    relative, absolute = (rate_after([loss] * 30, threshold_mode=mode)[0] for mode in ("rel", "abs"))
    stopped = stopped_after([loss] * 30)
    seen.append((relative < 1e-3, absolute < 1e-3, stopped))
    print(f"30 epochs at {loss}: rate {relative:.0e} (default), {absolute:.0e} (threshold_mode='abs'); skorch ends after {stopped}")
rising = [-5 + 4e-4 * epoch for epoch in range(2500)]
rate, best = rate_after(rising)
print(f"a loss that rises from {rising[0]} to {rising[-1]:.2f}: rate {rate}, best loss so far {best:.2f}")
expected = [(True, True, 4), (False, True, None)]
sys.exit("the behaviour has changed" if seen != expected or rate != 1.0 or best != rising[-1] else 0)
EOF
