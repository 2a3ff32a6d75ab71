#!/usr/bin/env bash
# One negative smoothing factor under five losses: two train plain cross entropy without a word.
set -euo pipefail
packages="torch==2.11.0 torchvision==0.26.0 timm==1.0.31 numpy==2.4.6"
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

import timm.loss
import torch
from timm.data import Mixup
from torch.nn.functional import cross_entropy, log_softmax, one_hot

FACTOR, CLASSES = -0.5, 5
torch.manual_seed(0)
logits, labels = torch.randn(8, CLASSES), torch.arange(8) % CLASSES
smoothed = (1 - FACTOR) * one_hot(labels, CLASSES) + FACTOR / CLASSES
wanted = -(smoothed * log_softmax(logits, 1)).sum(1).mean()
plain = cross_entropy(logits, labels)


def told(loss):
    """What a loss makes of the factor."""
    try:
        value = loss()
    except (AssertionError, RuntimeError, ValueError):
        return "refused"
    return next(word for word, other in {"negative": wanted, "plain": plain}.items() if torch.allclose(value, other))


mixup = Mixup(mixup_alpha=1, prob=0, label_smoothing=FACTOR, num_classes=CLASSES)  # smooths and mixes nothing
_, mixed = mixup(torch.zeros(8, 3, 4, 4), labels)
seen = {
    "torch cross_entropy, labels": told(lambda: cross_entropy(logits, labels, label_smoothing=FACTOR)),
    "torch cross_entropy, probabilities": told(
        lambda: cross_entropy(logits, one_hot(labels, CLASSES).float(), label_smoothing=FACTOR)
    ),
    "torch cross_entropy, factor 1.5": told(lambda: cross_entropy(logits, labels, label_smoothing=1.5)),
    "timm LabelSmoothingCrossEntropy": told(lambda: timm.loss.LabelSmoothingCrossEntropy(FACTOR)(logits, labels)),
    "timm Mixup and SoftTargetCrossEntropy": told(lambda: timm.loss.SoftTargetCrossEntropy()(logits, mixed)),
    "timm JsdCrossEntropy": told(lambda: timm.loss.JsdCrossEntropy(smoothing=FACTOR)(logits.repeat(3, 1), labels)),
    "timm BinaryCrossEntropy": told(lambda: timm.loss.BinaryCrossEntropy(FACTOR)(logits, labels)),
}
for name, word in seen.items():
    print(f"{name}: {word}")
expected = ["plain", "plain", "refused", "negative", "negative", "plain", "refused"]
sys.exit("the behaviour has changed" if list(seen.values()) != expected else 0)
EOF
