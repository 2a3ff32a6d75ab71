import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import nn

from smoothsweep.core.models.classifiers import build_classifier
from smoothsweep.core.training.batches import (
    Batch,
    epoch_batches,
    rank_batches,
    rank_slice,
)
from smoothsweep.core.training.classifier import EpochSettings, batch_loss, train_classifier
from tests.small_training import Scripted, colours, plain, recipe, same, weights


@pytest.mark.parametrize("world_size", [2, 3])
def test_ranks_together_have_the_gradient_of_one_process(world_size):
    settings = recipe(batch_size=29)  # 72 images: 29, 29 and 14, none of them divisible by the ranks
    data, model = colours(), plain()

    def gradients(rank, ranks):
        per_step = []
        for batch in rank_batches(data.images, data.labels, settings, seed=3, epoch=1, rank=rank, world_size=ranks):
            model.zero_grad()
            value, sums, _ = batch_loss(model, batch, EpochSettings(recipe=settings))
            value.backward()
            per_step.append((torch.cat([p.grad.flatten() for p in model.parameters()]), sums))
        return per_step

    single = gradients(0, 1)
    ranks = [gradients(rank, world_size) for rank in range(world_size)]
    assert [len(r) for r in ranks] == [3] * world_size
    for step, (gradient, sums) in enumerate(single):
        mean = torch.stack([r[step][0] for r in ranks]).mean(dim=0)
        torch.testing.assert_close(mean, gradient, atol=1e-6, rtol=1e-5)
        torch.testing.assert_close(sum(r[step][1] for r in ranks), sums, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize(("n", "world_size", "kept"), [(49, 1, 3), (50, 1, 4), (50, 2, 3), (52, 2, 4), (53, 3, 3)])
def test_a_rest_too_small_for_batchnorm_is_dropped(n, world_size, kept):
    batches = epoch_batches(n, 16, world_size=world_size, seed=0, epoch=0)
    assert len(batches) == kept
    for batch in batches:
        parts = [range(len(batch))[rank_slice(len(batch), r, world_size)] for r in range(world_size)]
        assert [i for part in parts for i in part] == list(range(len(batch)))
        assert min(len(part) for part in parts) >= 2


def test_inceptions_auxiliary_head_of_1000_takes_the_labels_as_they_are():
    model = build_classifier("inception_v3", 5, seed=0, protocol="clean").train()
    images = torch.randint(0, 256, (2, 3, 299, 299), generator=torch.Generator().manual_seed(0)).to(torch.uint8)
    labels = torch.tensor([4, 0])
    batch = Batch(images=images, labels=labels, draw=None, weight=1.0)
    seen, forward = [], model.forward
    model.forward = lambda x: seen.extend(output := forward(x)) or output
    value, sums, _ = batch_loss(model, batch, EpochSettings(recipe=recipe(image_size=299)))
    value.backward()
    assert [tuple(logits.shape) for logits in seen] == [(2, 5), (2, 1000)]
    by_hand = sum(-logits.log_softmax(1)[[0, 1], labels].mean() for logits in seen)
    assert value.item() == pytest.approx(by_hand.item(), rel=1e-5)
    assert sums[1] == (seen[0].argmax(1) == labels).sum()
    pushed = model.backbone.AuxLogits.fc.bias.grad < 0  # only the labels' outputs are pushed up
    assert pushed.nonzero()[:, 0].tolist() == [0, 4]


def test_bf16_trains_with_weights_and_loss_in_fp32():
    seen = set()

    def make(step, logits):
        seen.add(logits.dtype)
        return nn.functional.cross_entropy(logits, step.labels)

    results = {}
    for precision in ("fp32", "bf16"):
        model = build_classifier("resnet_small", 3, seed=1, protocol="clean")
        records = train_classifier(
            model, colours(), recipe(precision=precision), defense=Scripted(make=make), seed=0, evaluate=colours(8)
        )
        assert records[-1].test_acc == 1.0
        assert {p.dtype for p in model.parameters()} == {torch.float32}
        results[precision] = weights(model)
    assert seen == {torch.float32}
    assert not same(results["fp32"], results["bf16"])


RANK_PROGRAM = """
import sys
import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from smoothsweep.core.data.images import ImageSet
from smoothsweep.core.models.recipe import TrainingRecipe
from smoothsweep.core.training.classifier import train_classifier

rank, world, rendezvous, out = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4]
torch.set_num_threads(1)
if world > 1:
    torch.distributed.init_process_group("gloo", init_method=f"file://{rendezvous}", rank=rank, world_size=world)
torch.manual_seed(0)
model = nn.Sequential(nn.Conv2d(3, 4, 3, 2), nn.ReLU(), nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(16, 3))
labels = torch.arange(3).repeat_interleave(24)
noise = torch.randint(0, 100, (72, 3, 32, 32), generator=torch.Generator().manual_seed(1))
images = (noise + 50 * labels.view(-1, 1, 1, 1)).to(torch.uint8)
records = train_classifier(
    model,
    ImageSet(images=images, labels=labels, names=("a", "b", "c")),
    TrainingRecipe(epochs=3, batch_size=29, image_size=32),
    seed=0,
    rank=rank,
    world_size=world,
    wrap=DistributedDataParallel if world > 1 else None,
)
torch.save({"model": model.state_dict(), "loss": [r.loss for r in records], "acc": [r.train_acc for r in records]}, out)
if world > 1:
    torch.distributed.destroy_process_group()
"""


@pytest.mark.slow
def test_two_processes_train_what_one_trains(tmp_path):
    program = tmp_path / "rank.py"
    program.write_text(RANK_PROGRAM)
    root = Path(__file__).parents[3]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(root)}

    def start(rank, world):
        arguments = [str(rank), str(world), str(tmp_path / "rendezvous"), str(tmp_path / f"{world}-{rank}.pt")]
        return subprocess.Popen([sys.executable, str(program), *arguments], env=environment)

    processes = [start(0, 1), start(0, 2), start(1, 2)]
    assert [process.wait(timeout=240) for process in processes] == [0, 0, 0]
    one, first, second = (torch.load(tmp_path / f"{name}.pt", weights_only=True) for name in ("1-0", "2-0", "2-1"))
    assert first["loss"] == second["loss"] and same(first["model"], second["model"])
    assert first["loss"] == pytest.approx(one["loss"], rel=1e-5)
    assert first["acc"] == pytest.approx(one["acc"])
    for name, value in one["model"].items():
        torch.testing.assert_close(first["model"][name], value, atol=1e-5, rtol=1e-4)
