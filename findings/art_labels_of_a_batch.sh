#!/usr/bin/env bash
# ART's ClassLabels: only a batch of one comes out one-hot; of several, every row has a 1 for every class of the batch.
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
from art.defences.postprocessor import ClassLabels
from art.estimators.classification import PyTorchClassifier

torch.manual_seed(0)
network = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 10), torch.nn.Softmax(1))
torch.nn.init.normal_(network[1].weight)
images = np.random.default_rng(0).normal(size=(500, 1, 8, 8)).astype(np.float32)
bare, defended = (
    PyTorchClassifier(network, torch.nn.NLLLoss(), (1, 8, 8), 10, postprocessing_defences=defences)
    for defences in (None, ClassLabels())
)
labels = bare.predict(images).argmax(1)

seen = {}
for batch in (1, 4, 500):
    answers = np.concatenate([defended.predict(part) for part in np.split(images, 500 // batch)])
    same = float((answers.argmax(1) == labels).mean())
    seen[batch] = round(float(answers.sum(1).mean()), 2), round(same, 3)
    print(f"asked {batch} at a time: {seen[batch][0]} ones a row, largest entry is the predicted class of {same:.1%}")
right = seen[1] == (1.0, 1.0) and 2 < seen[4][0] < 4 and seen[4][1] < 0.6 and seen[500][0] == 10 and seen[500][1] < 0.2
sys.exit(0 if right else "the behaviour has changed")
EOF
