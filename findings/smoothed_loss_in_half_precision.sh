#!/usr/bin/env bash
# Label smoothing in float16: the mean loss of a batch of 64 is infinite from 100 classes on, its gradient is right.
set -euo pipefail
packages="torch==2.11.0 numpy==2.4.6"
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
from torch.nn.functional import cross_entropy

seen = {}
for classes, images in ((100, 8), (100, 64), (530, 64), (10575, 64)):
    for kind in (torch.float16, torch.bfloat16):
        torch.manual_seed(0)
        logits = (5 * torch.randn(images, classes)).to(kind).requires_grad_()
        labels = torch.arange(images)
        plain, smoothed = (cross_entropy(logits, labels, label_smoothing=factor) for factor in (0.0, 0.1))
        (gradient,) = torch.autograd.grad(smoothed, logits)
        exact = logits.detach().float().requires_grad_()
        (wanted,) = torch.autograd.grad(cross_entropy(exact, labels, label_smoothing=0.1), exact)
        close = torch.allclose(gradient.float(), wanted, atol=1e-3)
        name = str(kind).removeprefix("torch.")
        seen[classes * images, name] = plain.isfinite().item(), smoothed.isfinite().item(), close
        print(f"{images} images, {classes} classes, {name}: plain {plain.item():.2f}, smoothed {smoothed.item():.2f}, gradient right: {close}")
for (logits, name), (plain, smoothed, close) in seen.items():
    if not plain or smoothed != (name == "bfloat16" or logits < 1000) or not close:
        sys.exit("the behaviour has changed")
EOF
