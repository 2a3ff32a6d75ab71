"""Training of a classifier: its loop, batches, ranks."""

import copy
import io
import threading
from collections.abc import Callable
from dataclasses import dataclass

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn
from torchvision.transforms import functional as TF

from smoothsweep.core.data.augmentation import Augmentation, _pixel_box, draw_augmentation
from smoothsweep.core.data.images import ImageSet
from smoothsweep.core.defenses.base import Defense, StepLoss, over_outputs
from smoothsweep.core.errors import InputError, TrainingDiverged
from smoothsweep.core.models.classifiers import build_classifier
from smoothsweep.core.models.inference import embed_images, evaluate_accuracy, evaluate_logits
from smoothsweep.core.models.recipe import TrainingRecipe, learning_rate, make_optimizer
from smoothsweep.core.training.batches import (
    Batch,
    epoch_batches,
    network_input,
    place_images,
    rank_batches,
    rank_slice,
)
from smoothsweep.core.training.classifier import PLAIN, Epochs, train_classifier

MILD = Augmentation(hue=0.0, brightness=0.1, contrast=0.1, saturation=0.0)


@dataclass(frozen=True, kw_only=True)
class Scripted(Defense):
    """A loss of the tests: (step, logits) -> scalar."""

    make: Callable

    def loss(self, step):
        _, logits = over_outputs(step.forward(step.images), lambda z: z.sum(dim=1))
        return StepLoss(self.make(step, logits), logits, {})


def colours(per_class=24, size=32, seed=0):
    """Three classes of noisy plain colours."""
    generator = torch.Generator().manual_seed(seed)
    palette = torch.tensor([[200, 60, 60], [60, 200, 60], [60, 60, 200]])
    labels = torch.arange(3).repeat_interleave(per_class)
    noise = torch.randint(-50, 50, (3 * per_class, 3, size, size), generator=generator)
    images = (palette[labels][:, :, None, None] + noise).to(torch.uint8)
    return ImageSet(images=images, labels=labels, names=("red", "green", "blue"))


def recipe(**changes):
    return TrainingRecipe(**{"epochs": 3, "batch_size": 16, "image_size": 32, "augmentation": MILD, **changes})


class Plain(nn.Module):
    """A classifier without BatchNorm; with dropout if asked."""

    num_classes = 3

    def __init__(self, dropout=0.0):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(3, 4, 3, 2), nn.ReLU(), nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Dropout(dropout)
        )
        self.head = nn.Linear(16, 3)

    def forward(self, images):
        return self.head(self.body(images))


def plain(dropout=0.0):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return Plain(dropout)


def weights(model):
    return {name: value.clone() for name, value in model.state_dict().items()}


def same(a, b):
    return all(torch.equal(a[name], b[name]) for name in a)


def test_learns_colours():
    model = build_classifier("resnet_small", 3, seed=1, protocol="clean")
    records = train_classifier(
        model, colours(), recipe(epochs=4), seed=0, evaluate=colours(8, seed=9), evaluate_every=3
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
            plain(), colours(), recipe(), seed=0, defense=Scripted(make=make), alpha_of_epoch=lambda _: -0.05
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


SHARED = Augmentation.none().replace(crop_scale=(0.8, 1.0), flip=0.5, shared=True)


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def batch(images, augmentation=None, seed=0):
    draw = draw_augmentation(len(images), augmentation, generator(seed)) if augmentation else None
    return Batch(images=images, labels=torch.zeros(len(images), dtype=torch.int64), draw=draw, weight=1.0)


@pytest.mark.parametrize(("seed", "dtype"), [(0, torch.float32), (1, torch.float16)])
def test_unclipped_floats_are_cropped_then_mirrored_then_clipped(seed, dtype):
    """The published order of knowledge extraction: crop, mirror, clip, the same for the whole batch."""
    images = (2 * torch.randn(5, 3, 24, 24, generator=generator(9))).to(dtype)
    got = network_input(batch(images, SHARED, seed), 24)
    draw = draw_augmentation(5, SHARED, generator(seed))
    box = torch.stack(_pixel_box(draw, 24, 24, images.device), dim=1).int()
    assert (box == box[0]).all() and (draw.flip == draw.flip[0]).all()
    want = TF.resized_crop(images.float(), *box[0].tolist(), [24, 24], antialias=True)
    want = (want.flip(3) if draw.flip[0] else want).clamp(-1, 1)
    torch.testing.assert_close(got, want, atol=1e-5, rtol=0)
    assert got.is_contiguous(memory_format=torch.channels_last) and got.dtype == torch.float32


def test_floats_of_8_bits_give_what_the_bytes_give():
    images = torch.randint(0, 256, (6, 3, 20, 20), generator=generator()).to(torch.uint8)
    for augmentation in (None, SHARED, Augmentation()):
        ours = network_input(batch(images.float().div(127.5).sub(1), augmentation), 24)
        torch.testing.assert_close(ours, network_input(batch(images, augmentation), 24), atol=1e-4, rtol=0)


def test_a_shared_draw_is_new_in_every_step_and_the_same_on_every_rank():
    images = torch.rand(1, 3, 64, 64, generator=generator()).expand(40, -1, -1, -1) * 2 - 1
    recipe = TrainingRecipe(batch_size=10, image_size=32, augmentation=SHARED)
    labels, inputs = torch.zeros(40, dtype=torch.int64), []
    for rank in (0, 1):
        key = {"seed": 0, "epoch": 0, "rank": rank, "world_size": 2}
        inputs.append([network_input(b, 32) for b in rank_batches(images, labels, recipe, **key)])
    for first, second in zip(*inputs, strict=True):
        everything = torch.cat([first, second])
        assert len(everything) == 10 and (everything == everything[0]).all()
    steps = [part[0] for part in inputs[0]]
    assert not any(torch.equal(steps[i], steps[j]) for i in range(4) for j in range(i))


CPU = torch.device("cpu")
RECIPE = TrainingRecipe(epochs=2, batch_size=9, image_size=32)


def noise(n=40, size=32, dtype=torch.uint8):
    generator = torch.Generator().manual_seed(size)
    images = torch.randint(0, 256, (n, 3, size, size), generator=generator).to(torch.uint8)
    if dtype != torch.uint8:
        images = (images.float() / 100 - 1.3).to(dtype)
    return ImageSet(images=images, labels=torch.arange(n) % 3, names=("a", "b", "c"))


def network():
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return nn.Sequential(nn.Conv2d(3, 4, 4, 4), nn.ReLU(), nn.AvgPool2d(4), nn.Flatten(), nn.Linear(16, 3))


def trained(data, device_share, device="cpu", **changes):
    model = network()
    settings = TrainingRecipe(**{**vars(RECIPE), **changes})
    records = train_classifier(model, data, settings, seed=0, device=device, device_share=device_share)
    return [r.loss for r in records], {name: value.cpu() for name, value in model.state_dict().items()}


def assert_same(first, second):
    assert first[0] == second[0]
    assert all(torch.equal(value, second[1][name]) for name, value in first[1].items())


@pytest.mark.parametrize(("size", "dtype"), [(24, torch.uint8), (32, torch.float16), (40, torch.float32)])
def test_streamed_images_train_the_same_weights(size, dtype):
    data = noise(size=size, dtype=dtype)
    assert_same(trained(data, 0), trained(data, 0.4))


@pytest.mark.parametrize("device_share", [0, 0.4])
def test_a_mapped_set_is_not_copied(tmp_path, device_share):
    save_file({"images": noise(size=32).images}, tmp_path / "images.safetensors")
    images = load_file(tmp_path / "images.safetensors")["images"]
    data = ImageSet(images=images, labels=torch.arange(40) % 3, names=("a", "b", "c"))
    assert place_images(data, 32, CPU, device_share).images.data_ptr() == images.data_ptr()
    assert_same(trained(data, device_share), trained(noise(size=32), 0.4))


class Broken(Defense):
    def loss(self, step):
        plain = super().loss(step)
        return plain._replace(loss=plain.loss * torch.nan)


def test_an_error_ends_the_thread_and_comes_through():
    before = threading.active_count()
    with pytest.raises(TrainingDiverged):
        train_classifier(network(), noise(), RECIPE, seed=0, defense=Broken(), device_share=0)
    assert threading.active_count() == before


def test_floats_that_are_not_finite_are_refused():
    data = noise(dtype=torch.float32)
    data.images[7, 0, 0, 0] = torch.inf
    with pytest.raises(ValueError, match="expected finite floats"):
        place_images(data, 32, CPU, 0.4)


@pytest.mark.gpu
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_streaming_to_a_gpu_changes_nothing(precision):
    for size in (24, 32):
        data = noise(size=size)
        assert_same(trained(data, 0, "cuda", precision=precision), trained(data, 0.4, "cuda", precision=precision))


@pytest.mark.gpu
def test_a_gpu_trains_what_a_cpu_trains():
    plain = {"augmentation": Augmentation(hue=0.0), "epochs": 1}
    on_gpu, on_cpu = trained(noise(), 0, "cuda", **plain), trained(noise(), 0, **plain)
    assert on_gpu[0] == pytest.approx(on_cpu[0], rel=1e-3)


def loss_of(model, batch, settings):
    """Of a plain training's first step."""
    place = {"device": CPU, "rank": 0, "world_size": 1, "device_share": 0.4}
    return Epochs(model, colours(1), settings, PLAIN, seed=0, **place).loss_of(batch, 0, 0.0, 0)


@pytest.mark.parametrize("world_size", [2, 3])
def test_ranks_together_have_the_gradient_of_one_process(world_size):
    settings = recipe(batch_size=29)  # 72 images: 29, 29 and 14, none of them divisible by the ranks
    data, model = colours(), plain()

    def gradients(rank, ranks):
        per_step = []
        for batch in rank_batches(data.images, data.labels, settings, seed=3, epoch=1, rank=rank, world_size=ranks):
            model.zero_grad()
            value, sums, _ = loss_of(model, batch, settings)
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
    value, sums, _ = loss_of(model, batch, recipe(image_size=299))
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
