import dataclasses
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from smoothsweep.core.data.augmentation import Augmentation
from smoothsweep.core.data.images import ImageSet
from smoothsweep.core.defenses.base import Defense
from smoothsweep.core.defenses.operations import shuffled_batches
from smoothsweep.core.defenses.registry import make_defense
from smoothsweep.core.errors import InputError
from smoothsweep.core.models.classifiers import build_classifier
from smoothsweep.core.models.recipe import TrainingRecipe
from smoothsweep.core.training.batches import epoch_batches, training_generator
from smoothsweep.core.training.classifier import train_classifier
from tests.core.defenses.examples import EXAMPLES as DEFENDED
from tests.core.defenses.examples import told

EXAMPLES = {name: parameters for name, parameters in DEFENDED.items() if name != "label_smoothing"}


def faces(per_class=8, classes=3):
    generator = torch.Generator().manual_seed(0)
    labels = torch.arange(classes).repeat_interleave(per_class)
    noise = torch.randint(0, 99, (len(labels), 3, 32, 32), generator=generator)
    images = (60 * labels.view(-1, 1, 1, 1) + noise).byte()
    return ImageSet(images=images, labels=labels, names=tuple("abcd"[:classes]))


def recipe(**changes):
    mild = Augmentation(hue=0.0, brightness=0.1, contrast=0.1, saturation=0.0)
    return TrainingRecipe(**{"epochs": 2, "batch_size": 8, "image_size": 32, "augmentation": mild, **changes})


def prepared(defense, seed=1):
    model = build_classifier("resnet_small", 3, seed=seed, protocol="clean")
    defense.prepare(model, generator=training_generator(seed, "preparation"))
    return model


def timeless(records):
    return [{**vars(record), "seconds": 0} for record in records]


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_interrupted_training_under_any_defense_ends_with_the_same_weights(name):
    defense, data, states = make_defense(name, **EXAMPLES[name]), faces(), []
    arguments = {"defense": defense, "alpha_of_epoch": lambda epoch: -0.1 * epoch, "seed": 5, "evaluate": data}
    straight, resumed = prepared(defense), prepared(defense, seed=2)
    expected = train_classifier(straight, data, recipe(), on_epoch=lambda r, state: states.append(state()), **arguments)
    found = train_classifier(resumed, data, recipe(), resume=states[0], **arguments)
    assert timeless(found) == timeless(expected)
    assert all(torch.equal(v, resumed.state_dict()[k]) for k, v in straight.state_dict().items())
    assert set(expected[0].extra) >= {"top_logit_gap", "alpha"} | told(name, "FACTS", set())
    assert [record.extra["alpha"] for record in expected] == [0.0, -0.1]


def test_a_state_of_another_defense_is_refused():
    states, focal = [], make_defense("focal", gamma=2.0)
    keep = {"on_epoch": lambda record, state: states.append(state()), "seed": 0}
    train_classifier(prepared(focal), faces(), recipe(), defense=focal, **keep)
    with pytest.raises(InputError, match=r"resume: expected a state of defense None, got one of Focal\(gamma=2.0\)"):
        train_classifier(prepared(focal), faces(), recipe(), seed=0, resume=states[0])
    with pytest.raises(InputError, match=r"expected a state of defense Focal\(gamma=3.0\), got one of Focal"):
        stronger = make_defense("focal", gamma=3.0)
        train_classifier(prepared(focal), faces(), recipe(), defense=stronger, seed=0, resume=states[0])


@dataclasses.dataclass(frozen=True, kw_only=True)
class Spy(Defense):
    """Notes what it sees; its batches are those of whole size, its fact the first image's label."""

    seen: list = dataclasses.field(default_factory=list, compare=False, repr=False)
    names: tuple = ("first",)

    def sampler(self, labels, batch_size, generator):
        return shuffled_batches(len(labels), batch_size, generator)

    def alter_batch(self, images, labels, generator):
        self.seen.append((torch.rand((), generator=generator).item(), len(images), images.abs().max().item()))
        return images, labels

    def loss(self, step):
        plain = super().loss(step)
        return plain._replace(facts={name: step.labels[0].float() for name in self.names})


def test_batches_come_from_the_defense_and_facts_are_means_over_the_images():
    settings, defense, data = recipe(batch_size=9, epochs=1, augmentation=None), Spy(), faces()
    records = train_classifier(prepared(defense), data, settings, defense=defense, seed=4)
    assert [count for _, count, _ in defense.seen] == [9, 9]  # the rest of 6 is left out
    assert all(largest <= 1 for *_, largest in defense.seen)
    drawn = [torch.rand((), generator=training_generator(4, "alteration", 0, step, 0)).item() for step in (0, 1)]
    assert [draw for draw, *_ in defense.seen] == drawn and drawn[0] != drawn[1]
    choose = lambda generator: defense.sampler(data.labels, 9, generator)  # noqa: E731
    order = epoch_batches(24, 9, world_size=1, seed=4, epoch=0, choose=choose)
    assert records[0].extra["first"] == data.labels[torch.stack([batch[0] for batch in order])].double().mean()


def test_no_batch_at_all_is_one_clear_line():
    with pytest.raises(InputError, match="expected a batch of at least 4 of the 9 images, got none"):
        epoch_batches(9, 3, world_size=2, seed=0, epoch=0)
    bido = make_defense("bido", lambda_input=0.1, lambda_label=0.1, images_per_class=2)
    with pytest.raises(InputError, match="identity sampler: expected at least 4 classes"):
        train_classifier(prepared(bido), faces(), recipe(), defense=bido, seed=0)


def test_smoothing_is_refused_where_the_defense_says_why():
    class Alone(Defense):
        combines_with_smoothing = "its loss has no target to smooth"

    train_classifier(prepared(Alone()), faces(), recipe(epochs=1), defense=Alone(), seed=0)
    with pytest.raises(InputError, match="defense Alone: expected no label smoothing: its loss has no target"):
        train_classifier(
            prepared(Alone()), faces(), recipe(), defense=Alone(), alpha_of_epoch=lambda e: 0.1 * e, seed=0
        )


def test_a_training_stops_after_the_epoch_that_was_waited_for():
    data, asked, states = faces(), [], []

    def at_the_second(record):
        asked.append(record)
        return record.epoch == 1

    arguments = {"evaluate": data, "evaluate_every": 9, "stop_when": at_the_second, "seed": 0}
    long, model = recipe(epochs=4), prepared(Defense())
    records = train_classifier(model, data, long, on_epoch=lambda r, state: states.append(state()), **arguments)
    assert [record.epoch for record in records] == [0, 1] and asked == records
    assert all(record.test_acc is not None for record in records)
    again = prepared(Defense())
    assert timeless(train_classifier(again, data, long, resume=states[1], **arguments)) == timeless(records)
    assert torch.equal(again.head.weight, model.head.weight)


RANKS = """
import sys
import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel
sys.path.insert(0, sys.argv[5])
import test_defended as t
from smoothsweep.core.defenses.registry import make_defense
from smoothsweep.core.training.classifier import train_classifier

rank, world, rendezvous, out = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4]
torch.set_num_threads(1)
torch.distributed.init_process_group("gloo", init_method=f"file://{rendezvous}", rank=rank, world_size=world)
found = {}
for name, parameters in t.EXAMPLES.items():
    parameters = {**parameters, **t.told(name, "ON_RANKS", {})}
    defense = make_defense(name, **parameters)
    if defense.alone is not None:
        continue
    alpha = 0.0 if defense.combines_with_smoothing else -0.1
    model = t.prepared(defense)
    records = train_classifier(
        model, t.faces(), t.recipe(epochs=3, batch_size=12), defense=defense, alpha_of_epoch=lambda e: alpha, seed=0,
        rank=rank, world_size=world, wrap=DistributedDataParallel, evaluate=t.faces(),
        stop_when=lambda record: record.epoch == 1,
    )
    weights = {k: v for k, v in model.named_parameters()}
    found[name] = {"weights": weights, "facts": [r.extra for r in records], "loss": [r.loss for r in records]}
torch.save(found, out)
torch.distributed.destroy_process_group()
"""


@pytest.mark.slow
def test_two_ranks_agree_under_every_defense(tmp_path):
    program = tmp_path / "rank.py"
    program.write_text(RANKS)
    root, here = Path(__file__).parents[3], Path(__file__).parent
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(root)}
    outs = [tmp_path / f"{rank}.pt" for rank in (0, 1)]
    commands = [
        [sys.executable, str(program), str(rank), "2", str(tmp_path / "rendezvous"), str(out), str(here)]
        for rank, out in enumerate(outs)
    ]
    processes = [subprocess.Popen(command, env=environment) for command in commands]
    assert [process.wait(timeout=240) for process in processes] == [0, 0]
    first, second = (torch.load(out, weights_only=True) for out in outs)
    assert set(first) == {name for name in EXAMPLES if make_defense(name, **EXAMPLES[name]).alone is None}
    for name, of_rank in first.items():
        assert len(of_rank["loss"]) == 2  # rank 0 decided for both
        assert of_rank["facts"] == second[name]["facts"] and of_rank["loss"] == second[name]["loss"]
        assert all(torch.equal(v, second[name]["weights"][k]) for k, v in of_rank["weights"].items()), name
