import copy
import io

import pytest
import torch
from torch import nn

from smoothsweep.core.data.augmentation import Augmentation
from smoothsweep.core.errors import InputError, TrainingDiverged
from smoothsweep.core.models.classifiers import build_classifier
from smoothsweep.core.models.inference import embed_images, evaluate_accuracy, evaluate_logits
from smoothsweep.core.models.recipe import learning_rate, make_optimizer
from smoothsweep.core.training.batches import network_input, rank_batches
from smoothsweep.core.training.classifier import train_classifier
from tests.small_training import Scripted, colours, plain, recipe, same, weights


def test_learns_colours():
    model = build_classifier("resnet_small", 3, seed=1, protocol="clean")
    records = train_classifier(
        model,
        colours(),
        recipe(epochs=4),
        seed=0,
        evaluate=colours(8, seed=9),
        evaluate_every=3,
    )
    assert [r.test_acc is None for r in records] == [True, True, False, False]
    assert records[-1].test_acc == 1.0
    assert records[-1].loss < records[0].loss / 2
    assert records[-1].extra["top_logit_gap"] > records[0].extra["top_logit_gap"] > 0
    assert [r.lr for r in records] == pytest.approx([1e-3, 1e-3, 1e-3, 1e-4])
    logits = evaluate_logits(model, colours(8, size=48).images, image_size=32, batch_size=5)
    assert logits.shape == (24, 3)
    assert evaluate_accuracy(model, colours(8, seed=9), image_size=32) == 1.0
    assert embed_images(model, colours(2, size=20).images, image_size=32).shape == (6, model.feature_dim)


def test_same_seed_same_weights_whatever_the_global_state():
    results = []
    for global_seed, seed in ((0, 5), (1, 5), (0, 6)):
        model = plain(dropout=0.3)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(global_seed)
            before = torch.get_rng_state()
            train_classifier(model, colours(), recipe(), seed=seed)
            assert torch.equal(torch.get_rng_state(), before)
        results.append(weights(model))
    assert same(results[0], results[1])
    assert not same(results[0], results[2])


@pytest.mark.parametrize("optimizer", ["adam", "sgd"])
def test_resuming_is_exact(optimizer):
    settings = recipe(epochs=4, optimizer=optimizer, momentum=0.9 if optimizer == "sgd" else 0.0)
    data = colours()
    saved = []

    def keep(record, state):
        if record.epoch == 1:
            buffer = io.BytesIO()
            torch.save(state(), buffer)
            saved.append(buffer)

    straight = build_classifier("resnet_small", 3, seed=1, protocol="clean")
    straight_records = train_classifier(straight, data, settings, seed=0, on_epoch=keep)
    saved[0].seek(0)
    state = torch.load(saved[0], weights_only=True)
    resumed = build_classifier("resnet_small", 3, seed=99, protocol="clean")
    resumed_records = train_classifier(resumed, data, settings, seed=0, resume=state)
    assert same(weights(straight), weights(resumed))
    timeless = [[{**vars(r), "seconds": 0} for r in records] for records in (straight_records, resumed_records)]
    assert timeless[0] == timeless[1]
    finished = dict(state, epoch=4, records=[vars(r) for r in straight_records])
    assert len(train_classifier(resumed, data, settings, seed=0, resume=finished)) == 4
    with pytest.raises(InputError, match="resume: expected a state of seed 1, got one of 0"):
        train_classifier(resumed, data, settings, seed=1, resume=state)


def test_every_step_knows_its_epoch_and_the_smoothing_of_the_epoch():
    asked = []

    def make(step, logits):
        asked.append((step.epoch, step.epochs, step.criterion.alpha))
        return logits.sum() * 0 + step.epoch

    frozen = plain()
    records = train_classifier(
        frozen, colours(), recipe(), seed=0, defense=Scripted(make=make), alpha_of_epoch=lambda e: -0.1 * e
    )
    assert asked == [(e, 3, -0.1 * e) for e in range(3) for _ in range(5)]
    assert [r.loss for r in records] == pytest.approx([0, 1, 2])
    assert [r.extra["alpha"] for r in records] == pytest.approx([0, -0.1, -0.2])
    assert same(weights(frozen), weights(plain()))


def test_a_loss_that_is_not_finite_stops_with_epoch_step_and_alpha():
    def make(step, logits):
        value = nn.functional.cross_entropy(logits, step.labels)
        return value * float("nan") if step.epoch == 1 and next(steps) == 2 else value

    steps = iter(range(100))
    with pytest.raises(TrainingDiverged, match=r"epoch 1, step 2: loss nan, alpha -0.05"):
        train_classifier(
            plain(),
            colours(),
            recipe(),
            seed=0,
            defense=Scripted(make=make),
            alpha_of_epoch=lambda _: -0.05,
        )


def test_a_weight_that_is_not_finite_stops_too():
    class Overflowing(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.clone()

        @staticmethod
        def backward(ctx, gradient):
            return gradient * float("inf")

    one_step = recipe(epochs=1, batch_size=72)
    with pytest.raises(TrainingDiverged, match=r"epoch 0, last step: weight .* is not finite"):
        train_classifier(
            plain(),
            colours(),
            one_step,
            seed=0,
            defense=Scripted(make=lambda step, z: nn.functional.cross_entropy(Overflowing.apply(z), step.labels)),
        )


@pytest.mark.parametrize("optimizer", ["adam", "sgd"])
def test_the_loop_is_the_plain_one_bit_for_bit(optimizer):
    settings = recipe(epochs=2, optimizer=optimizer, augmentation=Augmentation())
    ours, model, data = plain(), plain().to(memory_format=torch.channels_last), colours()
    train_classifier(ours, data, settings, seed=7)
    steps = make_optimizer(model.parameters(), settings)
    for epoch in range(2):
        for group in steps.param_groups:
            group["lr"] = learning_rate(settings, epoch)
        for batch in rank_batches(data.images, data.labels, settings, seed=7, epoch=epoch):
            steps.zero_grad()
            nn.functional.cross_entropy(model(network_input(batch, 32)), batch.labels).backward()
            steps.step()
    assert same(weights(ours), weights(model))


def test_evaluation_restores_the_mode_and_does_not_touch_the_running_statistics():
    model = build_classifier("resnet_small", 3, seed=0, protocol="clean").train()
    before = copy.deepcopy(model.state_dict())
    evaluate_logits(model, colours(4).images, image_size=32)
    assert model.training and same(before, model.state_dict())
    assert evaluate_logits(model, colours(4).images[:0], image_size=32).shape == (0,)


def test_more_classes_than_the_model_has_are_refused():
    model = build_classifier("resnet_small", 2, seed=0, protocol="clean")
    with pytest.raises(InputError, match="at most 2 classes, got 3"):
        train_classifier(model, colours(4), recipe(), seed=0)
