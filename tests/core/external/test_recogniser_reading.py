"""An embedder with a gallery that is shown images wrongly: the readings that are tried."""

import pytest
import torch
from torch.nn import functional

from smoothsweep.core.data.images import ImageSet
from smoothsweep.core.errors import InputError
from smoothsweep.core.external.enrolling import (
    Embedding,
    check_embedder_reading,
)
from smoothsweep.core.external.model import OpenedModel
from smoothsweep.core.models.inference import USUAL, Normalisation
from smoothsweep.core.models.reading import Readings


def people(count=4, each=12):
    """Pictures of one colour for each person, with some noise."""
    generator = torch.Generator().manual_seed(0)
    colours = torch.randint(40, 216, (count, 3, 1, 1), generator=generator)
    labels = torch.arange(count).repeat_interleave(each)
    pixels = colours[labels] + 4 * torch.randn(len(labels), 3, 8, 8, generator=generator)
    images = pixels.round().clamp(0, 255).to(torch.uint8)
    return ImageSet(images=images, labels=labels, names=tuple(map(str, range(count))))


def embedder(trained):
    """The colour, which it sees in [0, 1] shown as trained, by eight levels of each channel."""

    def embed(shown):
        mean, std = (torch.tensor(values)[None, :, None] for values in (trained.mean, trained.std))
        colour = shown.mean((2, 3))[:, :, None] * std + mean
        levels = torch.linspace(0, 1, 8)
        return (-30 * (colour - levels) ** 2).exp().flatten(1) + 1e-6

    return OpenedModel(answer=embed, side=8)


def test_an_embedder_that_is_shown_images_wrongly_is_refused_with_a_reading_that_fits():
    """Templates are made anew under every reading: with those of the wrong one no other would look better."""
    data = people()
    train, test = data.subset(torch.arange(0, 48, 2)), data.subset(torch.arange(1, 48, 2))
    right, wrong = USUAL["inputs in [0, 1]"], Normalisation.of_range(5, 6)
    readings = Readings(sizes=())
    check_embedder_reading(
        Embedding(embedder(right), image_size=8, normalisation=right, where="e"), train, test, readings
    )
    with pytest.raises(
        InputError, match=r"e: expected an embedder .* 25.0% of 24 images as stated, 100.0% with .*: use --"
    ):
        check_embedder_reading(
            Embedding(embedder(right), image_size=8, normalisation=wrong, where="e"), train, test, readings
        )


def sized(faces, asked):
    """An embedder by the side of the images: colours in some sides, more or less clearly; in others one direction."""

    def embed(shown):
        asked.append(side := shown.shape[-1])
        if side == 24:
            raise InputError("e: expected another size")
        means = shown.mean((2, 3)) - shown.mean((2, 3)).mean(1, keepdim=True)
        return torch.cat([means * faces.get(side, 0.0), torch.ones(len(shown), 1)], 1)

    return OpenedModel(answer=embed, side=None)


def test_other_sizes_are_tried_and_the_one_that_tells_people_best_apart_is_named():
    """Sizes near the stated one alone; those that the embedder does not take are passed over."""
    data, normalisation, asked = people(), USUAL["inputs in [0, 1]"], []
    train, test = data.subset(torch.arange(0, 48, 2)), data.subset(torch.arange(1, 48, 2))
    readings = Readings(usual={}, further={}, sizes=(1, 8, 12, 16, 20, 24, 32, 33))

    def tried(faces):
        asked.clear()
        embed = Embedding(sized(faces, asked), image_size=8, normalisation=normalisation, where="e")
        check_embedder_reading(embed, train, test, readings)

    tried({8: 9.0, 16: 99.0})
    assert set(asked) == {8}, "of what tells people apart as stated nothing else is tried"
    with pytest.raises(InputError) as told:
        tried({12: 2.0, 16: 9.0, 20: 4.0})
    assert str(told.value) == (
        "e: expected an embedder that tells the people of the gallery apart, got 25.0% of 24 images as stated, 100.0% "
        "with images of 16 pixels: use --image-size 16"
    )
    assert set(asked) == {8, 12, 16, 20, 24, 32}
    tried({})  # no size is better: nothing is said
    check_embedder_reading(
        Embedding(sized({}, asked), image_size=8, normalisation=normalisation, where="e"),
        train,
        test,
        Readings(usual={}, further={}, sizes=()),
    )


def test_an_embedding_without_a_direction_is_one_line_and_the_reading_is_as_before():
    embed = Embedding(
        OpenedModel(answer=lambda shown: shown.flatten(1) * 0, side=8),
        image_size=8,
        normalisation=USUAL["inputs in [0, 1]"],
        where="e",
    )
    for _ in range(2):
        with pytest.raises(InputError, match=r"^e: expected embeddings of some length, got zeros$"):
            embed(people().images)
    shown = []
    embed = Embedding(
        OpenedModel(answer=lambda given: shown.append(given) or given.flatten(1) + 1e-3, side=8),
        image_size=8,
        normalisation=USUAL["inputs in [0, 1]"],
        where="e",
    )
    images = people().images[:3]
    embed.read(images, Normalisation.of_range(-1, 1), 8)
    found = embed(images)
    unit = images / 255
    torch.testing.assert_close(shown[0], 2 * unit - 1)
    torch.testing.assert_close(shown[1], unit)
    torch.testing.assert_close(found, functional.normalize(unit.flatten(1) + 1e-3, dim=1))
