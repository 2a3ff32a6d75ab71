#!/usr/bin/env bash
# The same classifier with its logits times 30: attacks by the sign of a gradient find it robust.
set -euo pipefail
packages="torch==2.11.0 torchattacks==3.5.1 numpy==2.4.6"
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
import torchattacks

torch.manual_seed(0)
images = torch.rand(200, 1, 4, 4)
labels = ((images.flatten(1) - 0.5) @ torch.randn(16, 3)).argmax(1)
network = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.Linear(32, 3))
optimizer = torch.optim.Adam(network.parameters(), 0.01)
for _ in range(300):
    optimizer.zero_grad()
    torch.nn.functional.cross_entropy(network(images), labels).backward()
    optimizer.step()


class Scaled(torch.nn.Module):
    """The network with its logits times a factor: every decision is the same."""

    def __init__(self, factor):
        super().__init__()
        self.network, self.factor = network, factor

    def forward(self, pictures):
        return self.factor * self.network(pictures)


attacks = {
    "FGSM": dict(eps=0.1),
    "PGD": dict(eps=0.1, alpha=0.02, steps=20),
    "APGD": dict(eps=0.1, steps=20, loss="ce"),
    "CW": dict(c=1, steps=50),
}
robust = {}
for factor in (1, 30):
    model = Scaled(factor).eval()
    for name, settings in attacks.items():
        torch.manual_seed(1)
        found = getattr(torchattacks, name)(model, **settings)(images, labels)
        robust[name, factor] = (model(found).argmax(1) == labels).float().mean().item()
for name in attacks:
    print(f"{name}: robust accuracy {robust[name, 1]:.2f}, with logits times 30 {robust[name, 30]:.2f}")
fooled = all(robust[name, 1] < 0.3 and robust[name, 30] > 0.7 for name in ("FGSM", "PGD", "APGD"))
sys.exit("the behaviour has changed" if not fooled or robust["CW", 30] > 0.2 else 0)
EOF
