#!/usr/bin/env bash
# ART's ReverseSigmoid on a network that gives logits, as torch's usually do: the answers are probabilities of other classes.
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
import numpy as np
import torch
from art.defences.postprocessor import ReverseSigmoid
from art.estimators.classification import PyTorchClassifier

torch.manual_seed(0)
logits = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 10))
torch.nn.init.normal_(logits[1].weight, std=0.5)
images = np.random.default_rng(0).normal(size=(1000, 1, 8, 8)).astype(np.float32)
labels = logits(torch.tensor(images)).argmax(1).numpy()

seen = {}
for name, network in (("logits", logits), ("softmax", torch.nn.Sequential(logits, torch.nn.Softmax(1)))):
    defence = ReverseSigmoid(beta=1.0, gamma=0.1)
    model = PyTorchClassifier(network, torch.nn.CrossEntropyLoss(), (1, 8, 8), 10, postprocessing_defences=defence)
    answers = model.predict(images)
    seen[name] = float((answers.argmax(1) == labels).mean())
    ties = float((np.sort(answers)[:, -1] - np.sort(answers)[:, -2] < 1e-4).mean())
    print(f"network ends in {name}: rows sum to {answers.sum(1).mean():.2f}, two classes on top in {ties:.1%},"
          f" the predicted class stays in {seen[name]:.1%}")
sys.exit(0 if seen["logits"] < 0.6 and seen["softmax"] > 0.99 else "the behaviour has changed")
EOF
