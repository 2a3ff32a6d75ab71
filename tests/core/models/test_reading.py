"""The gate on a classifier of somebody else's: passes under the right card alone, and names the reading that fits."""

import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from torch import nn

from smoothsweep.core.data.images import ImageSet
from smoothsweep.core.errors import InputError
from smoothsweep.core.models.inference import USUAL, Normalisation, evaluate_logits, input_layer
from smoothsweep.core.models.reading import (
    Claim,
    MisreadModel,
    Readings,
    as_flags,
    check_reading,
    order_by_name,
    usual_orders,
)
from smoothsweep.workbench import as_arguments

CLASSES = 6
NAMES = ("dot", "Ann", "cy", "bob", "eve", "fay")
SIZES = torch.tensor([5, 9, 4, 8, 6, 7])
IMAGENET = USUAL["ImageNet mean/std"]


def images(per_class=20, noise=3.0, seed=0):
    """Squares of six shades, 25 apart, in the order of NAMES."""
    generator = torch.Generator().manual_seed(seed)
    labels = torch.arange(CLASSES).repeat_interleave(per_class)
    shades = 60 + 25 * labels[:, None, None, None] + noise * torch.randn(len(labels), 1, 4, 4, generator=generator)
    pixels = shades.expand(-1, 3, -1, -1).round().clamp(0, 255).to(torch.uint8)
    return ImageSet(images=pixels, labels=labels, names=NAMES)


class Shades(nn.Module):
    """Knows each person's shade as it looks under `trained`; its outputs are in the order `outputs` of the classes."""

    def __init__(self, trained: Normalisation, outputs: torch.Tensor):
        super().__init__()
        shades = ((60 + 25.0 * torch.arange(CLASSES)) / 127.5 - 1)[:, None, None, None].expand(-1, 3, 1, 1)
        self.known = input_layer(trained)(shades).mean((1, 2, 3))[outputs]
        self.normalise = nn.Identity()

    def wants(self, normalisation):
        self.normalise = input_layer(normalisation)

    def forward(self, x):
        return -(self.normalise(x).mean((1, 2, 3))[:, None] - self.known).abs()


def judge(trained, outputs, card, order, *, data=None, accuracy=None):
    """check_reading as `tasks.imported` calls it: the model's outputs brought into the claimed order of the data."""
    data, model = data or images(), Shades(trained, outputs)
    model.known = model.known[order]
    model.wants(card)
    logits = evaluate_logits(model, data.images, image_size=4)
    claim = Claim(normalisation=card, order=order, accuracy=accuracy)
    check_reading(model, data, logits, claim, orders=usual_orders(NAMES, SIZES), image_size=4, device="cpu", where="f")
    return model


def alphabetical():
    """(outputs: the class of each output, order: the output of each class)."""
    order = order_by_name(sorted(NAMES), NAMES, "f")
    return torch.argsort(order), order


@pytest.mark.parametrize("trained", USUAL)
@pytest.mark.parametrize("accuracy", [None, 0.97])
def test_the_right_card_passes_and_the_model_stays_as_it_was(trained, accuracy):
    outputs, order = alphabetical()
    model = judge(USUAL[trained], outputs, USUAL[trained], order, accuracy=accuracy)
    expected = input_layer(USUAL[trained])(torch.ones(1, 3, 1, 1))
    assert torch.equal(model.normalise(torch.ones(1, 3, 1, 1)), expected)


@pytest.mark.parametrize("trained", USUAL)
@pytest.mark.parametrize("card", USUAL)
def test_every_wrong_normalisation_is_named(trained, card):
    outputs, order = alphabetical()
    if trained == card:
        return
    with pytest.raises(InputError, match=rf"\d% with {trained.replace('[', '.').replace(']', '.')}; .* as stated"):
        judge(USUAL[trained], outputs, USUAL[card], order)


@pytest.mark.parametrize("shift", [None, 1, -1])
def test_numbered_classes_are_tried_in_natural_order_and_the_order_is_handed_over(shift):
    """s1, s2, ..., s12: by text s10 comes after s1. The names by output are what `--class-names` takes."""
    names = tuple(sorted(f"s{number}" for number in range(1, 13)))
    sizes, data = torch.ones(12, dtype=torch.int64), torch.arange(12).repeat_interleave(20)
    natural = sorted(names, key=lambda name: int(name[1:]))
    order = order_by_name(natural, names, "f") if shift is None else torch.arange(12).roll(shift)
    test = ImageSet(images=torch.zeros(240, 3, 4, 4, dtype=torch.uint8), labels=data, names=names)
    logits = torch.nn.functional.one_hot(order, 12)[data].float()
    claim = Claim(normalisation=IMAGENET, order=torch.arange(12))
    orders = usual_orders(names, sizes)
    assert any(torch.equal(order, usual) for usual in orders.values())
    with pytest.raises(MisreadModel, match="with classes") as raised:
        check_reading(
            Shades(IMAGENET, torch.arange(6)),
            test,
            logits,
            claim,
            orders=orders,
            image_size=4,
            device="cpu",
            where="f",
            readings=Readings.none(IMAGENET),
        )
    found = raised.value.class_names
    assert torch.equal(order_by_name(found, names, "f"), order)
    assert shift is not None or list(found) == natural


@given(st.permutations(range(CLASSES)))
def test_any_order_of_the_classes_is_noticed(outputs):
    """Also one that leaves some people where they are, and so stays above chance."""
    assume(outputs != list(range(CLASSES)))
    with pytest.raises(InputError, match=r"with (the )?(alphabetical )?classes"):
        judge(IMAGENET, torch.tensor(outputs), IMAGENET, torch.arange(CLASSES))


def test_an_accuracy_that_is_not_reached_is_refused_although_above_chance():
    outputs, order = alphabetical()
    blurred = images(noise=120.0)
    judge(IMAGENET, outputs, IMAGENET, order, data=blurred)
    with pytest.raises(InputError, match=r"its card states 99\.0%\); no usual normalisation, size or class order fits"):
        judge(IMAGENET, outputs, IMAGENET, order, data=blurred, accuracy=0.99)


def test_a_normalisation_is_what_torchvision_makes_of_it():
    from torchvision.transforms.functional import normalize

    pictures = torch.rand(2, 3, 5, 5)
    got = input_layer(IMAGENET)(pictures * 2 - 1)
    torch.testing.assert_close(got, normalize(pictures, list(IMAGENET.mean), list(IMAGENET.std)))
    torch.testing.assert_close(input_layer(Normalisation.of_range(0, 255))(pictures * 2 - 1), pictures * 255)
    assert isinstance(input_layer(Normalisation.of_range(-1, 1)), nn.Identity)


@pytest.mark.parametrize(
    "wrong",
    [
        {"mean": (0.0, 0.0)},
        {"std": (0.0, 1.0, 1.0)},
        {"std": (float("nan"),) * 3},
        {"mean": (float("inf"), 0.0, 0.0)},
        {"std": (-1.0, 1.0, 1.0)},
    ],
)
def test_impossible_normalisations_are_refused(wrong):
    with pytest.raises(InputError, match="expected three numbers"):
        Normalisation(**wrong)
    for low, high in ((1, 0), (0, 0), (float("nan"), 1), (0, float("inf"))):
        with pytest.raises(InputError, match="input range"):
            Normalisation.of_range(low, high)


class Stripes(nn.Module):
    """Knows six people by the shade of the red channel, in images of `side` pixels with channels in this order."""

    def __init__(self, side: int, channels: str):
        super().__init__()
        self.side, self.channels, self.normalise = side, channels, nn.Identity()
        self.known = (60 + 25.0 * torch.arange(CLASSES)) / 127.5 - 1

    def wants(self, normalisation):
        self.normalise = input_layer(normalisation)

    def forward(self, x):
        x = self.normalise(x)
        if self.channels == "bgr":
            x = x.flip(1)
        # Its shade is that of the red channel; any other size than its own shifts what it sees by chance.
        off = 0.0 if x.shape[-1] == self.side else 0.6 * (x.shape[-1] % 7 - 3)
        return -(x[:, 0].mean((1, 2))[:, None] + off - self.known).abs()


def coloured():
    """As `images`, of which the other channels show another person's shade."""
    data = images()
    pixels = data.images.clone()
    pixels[:, 1:] = images().images[(torch.arange(len(data)) * 7 + 31) % len(data)][:, 1:]
    return ImageSet(images=pixels, labels=data.labels, names=NAMES)


@pytest.mark.parametrize(
    ("side", "channels", "flags"),
    [
        (64, "rgb", "use --image-size 64"),
        (32, "bgr", "use --input-range -1 1 and --channels bgr"),
        (64, "bgr", "use --image-size 64 and --input-range -1 1 and --channels bgr"),
        (32, "rgb", None),
    ],
)
def test_a_wrong_size_and_swapped_channels_are_named_with_the_flags_to_give(side, channels, flags):
    model, data = Stripes(side, channels), coloured()
    logits = evaluate_logits(model, data.images, image_size=32)
    claim = Claim(normalisation=Normalisation(), order=torch.arange(CLASSES))
    tell = lambda: check_reading(model, data, logits, claim, orders={}, image_size=32, device="cpu", where="f")  # noqa: E731
    if flags is None:
        tell()
    else:
        with pytest.raises(InputError) as told:
            tell()
        assert str(told.value).endswith(flags) and "\n" not in str(told.value)
        enlarged = f" (of images loaded with {data.size}, so that a still larger size may be right);" in str(told.value)
        assert enlarged == ("--image-size" in flags), "48 may be the best of a model for 64 where the images have 32"


@pytest.mark.parametrize(
    ("side", "then", "flags"),
    [
        (32, as_flags, "use --input-range -1 1 and --channels rgb"),
        (64, as_flags, "use --image-size 64 and --input-range -1 1 and --channels rgb"),
        (32, as_arguments, "say input_range=(-1, 1) and channels='rgb' to Model"),
    ],
)
def test_channels_stated_as_blue_first_by_mistake_are_named_with_what_takes_it_back(side, then, flags):
    """What is said without them is the default: the rest of the line alone is what was said already."""
    model, data = Stripes(side, "rgb"), coloured()
    stated = Normalisation(channels="bgr")
    model.wants(stated)
    claim = Claim(normalisation=stated, order=torch.arange(CLASSES))
    logits = evaluate_logits(model, data.images, image_size=32)
    with pytest.raises(InputError) as told:
        check_reading(model, data, logits, claim, orders={}, image_size=32, device="cpu", where="f", then=then)
    assert str(told.value).endswith(flags) and "% with RGB, inputs in [-1, 1]" in str(told.value)
