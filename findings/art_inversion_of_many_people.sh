#!/usr/bin/env bash
# ART's model inversion stops after one step where a class starts below 1 %, as with 110 people, and never stops early.
set -euo pipefail
packages="torch==2.11.0 adversarial-robustness-toolbox==1.20.1 numpy==2.4.6"
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
from art.attacks.inference.model_inversion import MIFace
from art.estimators.classification import PyTorchClassifier


def invert(people, **settings):
    """Steps taken for one person by a softmax regression of 8 x 8 pixels, and the confidence reached."""
    torch.manual_seed(0)
    network = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, people), torch.nn.Softmax(1))
    torch.nn.init.normal_(network[1].weight)
    torch.nn.init.zeros_(network[1].bias)
    model = PyTorchClassifier(network, torch.nn.NLLLoss(), (1, 8, 8), people, clip_values=(-3, 3))
    gradient, steps = model.class_gradient, []

    def counted(*given, **named):
        steps.append(1)
        return gradient(*given, **named)

    model.class_gradient = counted
    found = MIFace(model, max_iter=600, verbose=False, **settings).infer(None, np.array([0]))
    return len(steps), float(model.predict(found)[0, 0])


seen = {}
for people in (90, 110, 530):
    for settings in ({}, {"threshold": 0.9999}):
        steps, confidence = invert(people, **settings)
        seen[people, len(settings)] = steps, confidence > 0.99
        print(f"{people} people, {settings or 'threshold 0.99 (default)'}: {steps} of 600 steps, confidence {confidence:.4f}")
done = (600, True)
expected = {(90, 0): done, (90, 1): done, (110, 0): (1, False), (110, 1): done, (530, 0): (1, False), (530, 1): done}
sys.exit("the behaviour has changed" if seen != expected else 0)
EOF
