#!/usr/bin/env bash
# Class weights under DP-SGD: Opacus's two modes train different models, and in one an example's gradient depends on its batch.
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

import torch
from opacus import GradSampleModule, PrivacyEngine
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
images, labels = torch.randn(32, 10), torch.arange(32) % 4
weights = torch.tensor([1.0, 5.0, 0.2, 3.0])


def stepped(mode, weight):
    """The bias after one step over all images, without noise and with a bound that clips nothing."""
    torch.manual_seed(1)
    network = torch.nn.Linear(10, 4)
    optimizer = torch.optim.SGD(network.parameters(), lr=1.0)
    criterion = torch.nn.CrossEntropyLoss(weight=weight)
    if mode is not None:
        made = PrivacyEngine().make_private(
            module=network, optimizer=optimizer, criterion=criterion, grad_sample_mode=mode, poisson_sampling=False,
            data_loader=DataLoader(TensorDataset(images, labels), batch_size=32), noise_multiplier=0.0, max_grad_norm=1e6,
        )  # fmt: skip
        network, optimizer = made[:2]
        criterion = made[2] if mode == "ghost" else criterion
    optimizer.zero_grad()
    criterion(network(images), labels).backward()
    optimizer.step()
    return list(network.parameters())[1].detach()


seen = []
for name, weight in (("no weights", None), ("class weights", weights)):
    plain, hooks, ghost = (stepped(mode, weight) for mode in (None, "hooks", "ghost"))
    far = [(other - plain).abs().max().item() for other in (hooks, ghost)]
    seen.append([distance < 1e-5 for distance in far])
    print(f"{name}: away from the step without Opacus by {far[0]:.6f} (hooks), {far[1]:.6f} (ghost)")

norms = []
for others in (0, 1):  # the class of everybody else in the batch
    torch.manual_seed(1)
    network = GradSampleModule(torch.nn.Linear(10, 4))
    torch.nn.CrossEntropyLoss(weight=weights)(network(images), torch.tensor([2] + 31 * [others])).backward()
    norms.append(list(network.parameters())[1].grad_sample[0].norm().item())
print(f"hooks: one image's gradient has the norm {norms[0]:.3f} beside others of class 0, {norms[1]:.3f} of class 1")
changed = seen != [[True, True], [True, False]] or not norms[0] > 4 * norms[1]
sys.exit("the behaviour has changed" if changed else 0)
EOF
