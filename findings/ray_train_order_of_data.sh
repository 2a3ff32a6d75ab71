#!/usr/bin/env bash
# Ray Train with two workers: the order of the data is the same whatever the seed, and in every epoch.
set -euo pipefail
packages="ray[train]==2.60.0 torch==2.11.0 numpy==2.4.6"
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

import json
import logging
import os
from pathlib import Path

os.environ.update(RAY_USAGE_STATS_ENABLED="0", RAY_TRAIN_V2_ENABLED="1")
import ray
import torch
from ray.train import RunConfig, ScalingConfig, get_context
from ray.train.torch import TorchTrainer, prepare_data_loader
from torch.utils.data import DataLoader


def orders(config):
    """What each of two epochs reads, in order, by the first worker."""
    torch.manual_seed(config["seed"])
    loader = prepare_data_loader(DataLoader(list(range(8)), batch_size=2, shuffle=True))
    epochs = []
    for _ in range(2):
        epochs.append([int(number) for batch in loader for number in batch])
    if get_context().get_world_rank() == 0:
        Path(config["file"]).write_text(json.dumps(epochs))


ray.init(address="local", num_cpus=4, log_to_driver=False, logging_level=logging.ERROR)
seen = {}
for workers in (1, 2):
    for seed in (1, 2):
        file = Path.cwd() / f"{workers}.{seed}.json"
        TorchTrainer(
            orders,
            train_loop_config={"seed": seed, "file": str(file)},
            scaling_config=ScalingConfig(num_workers=workers),
            run_config=RunConfig(storage_path=str(Path.cwd() / "runs"), name=file.stem),
        ).fit()
        seen[workers, seed] = json.loads(file.read_text())
        print(f"{workers} worker{'s'[: workers - 1]}, seed {seed}: epochs {seen[workers, seed][0]} and {seen[workers, seed][1]}")
ray.shutdown()
alone = seen[1, 1] != seen[1, 2] and seen[1, 1][0] != seen[1, 1][1]
together = seen[2, 1] == seen[2, 2] and seen[2, 1][0] == seen[2, 1][1]
sys.exit("the behaviour has changed" if not alone or not together else 0)
EOF
