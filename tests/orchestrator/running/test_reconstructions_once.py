"""However many judges there are, the final images are synthesised once; each gets them at its own size."""

from hashlib import sha256

import pytest
import torch
from safetensors.torch import load_file
from tiny import TRAINING, tiny_sweep

from smoothsweep.core.models.embedders import FaceNet
from smoothsweep.core.models.fid_network import FidInception
from smoothsweep.core.priors.eigenfaces import Eigenfaces
from smoothsweep.orchestrator.planning.trial import inversion_stages, trials_of
from smoothsweep.orchestrator.result.rows import trial_row
from smoothsweep.orchestrator.scheduling.execute import execute_with_inputs
from smoothsweep.orchestrator.store.opening import open_store
from smoothsweep.sweeps.expand import LoadedSweep, check


@pytest.fixture(scope="module")
def weights(tmp_path_factory):
    folder = tmp_path_factory.mktemp("weights")
    torch.manual_seed(0)
    torch.save(FaceNet().network.state_dict(), folder / "facenet.pt")
    torch.save(FidInception().state_dict(), folder / "fid.pth")
    return folder


def trial_with_every_judge(weights, protocol, **attack):
    fid = weights / "fid.pth"
    raw = tiny_sweep(protocol=protocol, grid={}, baseline={})
    raw["data"].update(identities=2, train_per_class=4, test_per_class=2)
    raw["attack"].update(attack)
    raw["judges"] = {
        "evaluator": {"architecture": "vgg_small", **TRAINING},
        "embedder": {"name": "facenet", "weights": str(weights / "facenet.pt")},
        "fidelity": {
            "weights": str(fid),
            "sha256": sha256(fid.read_bytes()).hexdigest(),
            "neighbours": 1,
        },
        "knowledge": {"architecture": "resnet_small", **TRAINING, "batch_size": 4, "lr": 0.05, "image_size": 48},
    }
    [trial] = trials_of(LoadedSweep(sweep=check(raw, "tiny"), raw=raw, intro="", source="tiny"))
    return trial


@pytest.mark.parametrize(
    ("protocol", "attack"), [("paper", {}), pytest.param("clean", {"reconstruction_size": 16}, marks=pytest.mark.slow)]
)
def test_one_synthesis_serves_every_judge(tmp_path, weights, monkeypatch, protocol, attack):
    store = open_store(str(tmp_path / "store"))
    store.open_for_writing()
    trial = trial_with_every_judge(weights, protocol, **attack)
    stages = inversion_stages(trial.settings, trial.seed)
    execute_with_inputs(store, stages.attack)
    images, synthesize = [], Eigenfaces.synthesize
    monkeypatch.setattr(Eigenfaces, "synthesize", lambda prior, w: images.append(len(w)) or synthesize(prior, w))
    for stage in stages:
        execute_with_inputs(store, stage)
    assert sum(images) == 2 * trial.settings.attack.selected
    row = trial_row(trial, store)
    judged = ("attack_acc1", "dist_eval", "dist_face", "fid", "kid", "precision", "coverage", "xi_train", "xi_test")
    assert row["status"] == "done" and all(row[name] is not None for name in judged)
    kept = {
        path.name: load_file(path)["images"] for path in store.path(stages.reconstructions).glob("images*.safetensors")
    }
    if protocol == "paper":
        sizes = {f"images_{size}.safetensors": (torch.float16, size) for size in (32, 48, 160, 299)}
        assert {name: (images.dtype, images.shape[-1]) for name, images in kept.items()} == sizes
    else:
        assert kept["images.safetensors"].dtype == torch.uint8 and kept["images.safetensors"].shape[-1] == 16
