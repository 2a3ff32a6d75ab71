#!/usr/bin/env bash
# With weight averaging, a Lightning checkpoint's state_dict holds the averaged weights; runs resume from them.
set -euo pipefail
packages="torch==2.11.0 lightning==2.6.6 numpy==2.4.6"
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

import lightning
import torch
from lightning.pytorch.callbacks import Callback, EMAWeightAveraging, ModelCheckpoint
from torch.utils.data import DataLoader, TensorDataset

logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)


class Classifier(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.network = torch.nn.Linear(4, 3)

    def training_step(self, batch, _):
        return torch.nn.functional.cross_entropy(self.network(batch[0]), batch[1])

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), 0.5)


class Weights(Callback):
    """Remembers the weights before the first and after the last step."""

    def on_train_start(self, _, module):
        self.first = module.network.weight.detach().clone()

    def on_train_batch_end(self, _, module, *__):
        self.last = module.network.weight.detach().clone()


def trained(epochs, callbacks, checkpoint=None):
    weights = Weights()
    options = {"logger": False, "enable_progress_bar": False, "enable_model_summary": False, "accelerator": "cpu"}
    trainer = lightning.Trainer(max_epochs=epochs, callbacks=[weights, *callbacks], default_root_dir=".", **options)
    trainer.fit(Classifier(), data, ckpt_path=checkpoint)
    return weights


torch.manual_seed(0)
data = DataLoader(TensorDataset(torch.randn(64, 4), torch.randint(0, 3, (64,))), batch_size=16)
first = trained(3, [EMAWeightAveraging(decay=0.9), ModelCheckpoint(dirpath="saved", filename="run")])
checkpoint = torch.load("saved/run.ckpt", weights_only=True)
kept = {key: checkpoint[key]["network.weight"] for key in ("state_dict", "current_model_state")}
resumed = trained(4, [ModelCheckpoint(dirpath="again")], "saved/run.ckpt")
seen = {
    "state_dict holds the weights of the last step": torch.equal(kept["state_dict"], first.last),
    "current_model_state holds them": torch.equal(kept["current_model_state"], first.last),
    "a run resumed without the callback begins where training ended": torch.equal(resumed.first, first.last),
    "it begins from the averaged weights": torch.equal(resumed.first, kept["state_dict"]),
}
for name, value in seen.items():
    print(f"{name}: {value}")
sys.exit("the behaviour has changed" if list(seen.values()) != [False, True, False, True] else 0)
EOF
