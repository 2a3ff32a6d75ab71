#!/usr/bin/env bash
# mlflow.pytorch.log_model freezes the mode that the network happens to be in, and no loaded copy can leave it.
set -euo pipefail
packages="torch==2.11.0 mlflow==3.17.2 numpy==2.4.6"
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
import os

os.environ["MLFLOW_DISABLE_TELEMETRY"] = "true"
import mlflow
import numpy as np
import torch

logging.disable(logging.WARNING)
mlflow.set_tracking_uri("sqlite:///runs.db")
torch.manual_seed(0)
network = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.BatchNorm1d(8), torch.nn.Linear(8, 3))
inputs = np.random.default_rng(0).normal(size=(6, 4)).astype(np.float32)
network(torch.from_numpy(inputs) + 3)  # a step of training: running statistics unlike those of a batch


def served(training):
    """Are the answers those of eval(), do they depend on the batch, and can the copy be put into eval()?"""
    network.train(training)
    with mlflow.start_run():
        logged = mlflow.pytorch.log_model(network, name="classifier", input_example=inputs)
    answers = mlflow.pyfunc.load_model(logged.model_uri).predict
    right = network.eval()(torch.from_numpy(inputs)).detach().numpy()
    alone = np.concatenate([answers(inputs[:3]), answers(inputs[3:])])
    try:
        mlflow.pytorch.load_model(logged.model_uri).eval()
        movable = True
    except NotImplementedError:
        movable = False
    return bool(np.allclose(answers(inputs), right, atol=1e-5)), not np.allclose(answers(inputs), alone), movable


seen = {training: served(training) for training in (False, True)}
for training, (right, batch, movable) in seen.items():
    print(f"training={training}: answers of eval() {right}, depend on the batch {batch}, eval() possible {movable}")
sys.exit("the behaviour has changed" if seen != {False: (True, False, False), True: (False, True, False)} else 0)
EOF
