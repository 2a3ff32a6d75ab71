"""An embedder with a gallery: templates, the threshold, the labels that it gives, and files that are none."""

from dataclasses import fields

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional

from smoothsweep.core.attacks.shared.execution import Execution, PreparedTarget
from smoothsweep.core.attacks.shared.view import view_of
from smoothsweep.core.data.images import ImageSet
from smoothsweep.core.devices import ExecutionConfig
from smoothsweep.core.errors import InputError
from smoothsweep.core.external.enrolling import (
    LEAST_STRANGERS,
    Embedding,
    check_embedder_reading,
    enrol,
    is_same_embedder,
    similarities,
    threshold_of,
)
from smoothsweep.core.external.model import ExternalModel, OpenedModel
from smoothsweep.core.external.recogniser import (
    SCALE,
    Recogniser,
    SimilarityClassifier,
    read_recogniser,
    write_recogniser,
)
from smoothsweep.core.models.inference import USUAL, Normalisation
from smoothsweep.core.models.reading import Readings


def directions(count, width=6, seed=0):
    return functional.normalize(torch.randn(count, width, generator=torch.Generator().manual_seed(seed)), dim=1)


def test_a_mean_template_is_the_direction_of_a_persons_photographs_and_each_keeps_all():
    features, labels = directions(7), torch.tensor([1, 0, 1, 2, 1, 0, 2])
    mean, owners = enrol(features, labels, templates="mean")
    assert owners.tolist() == [0, 1, 2]
    for person in range(3):
        direction = sum(features[row] for row in range(7) if labels[row] == person)
        torch.testing.assert_close(mean[person], direction / direction.norm())
    each, owners = enrol(features, labels, templates="each")
    assert torch.equal(each, features) and torch.equal(owners, labels)


@pytest.mark.parametrize("templates", ["mean", "each"])
def test_the_logits_are_the_cosines_to_the_nearest_template_of_each_person(templates):
    features, labels = directions(7), torch.tensor([1, 0, 1, 2, 1, 0, 2])
    held, owners = enrol(features, labels, templates=templates)
    probes = 3.7 * directions(5, seed=1)
    found = SimilarityClassifier(lambda images: probes, held, owners)(torch.zeros(5, 3, 2, 2))
    for row in range(5):
        for person in range(3):
            cosines = [
                float(probes[row] @ one) / 3.7 for one, whose in zip(held, owners, strict=True) if whose == person
            ]
            assert found[row, person].item() == pytest.approx(SCALE * max(cosines), abs=1e-4)
    torch.testing.assert_close(found / SCALE, similarities(probes / 3.7, held, owners))


@settings(deadline=None, max_examples=25)
@given(st.integers(LEAST_STRANGERS, 300), st.integers(2, 9), st.integers(0, 5), st.booleans())
def test_at_most_one_in_a_hundred_pairs_of_strangers_is_accepted_and_no_lower_threshold_will_do(
    many, people, seed, ties
):
    cosines = torch.rand(many, people, generator=torch.Generator().manual_seed(seed)) * 2 - 1
    cosines = (cosines * 10).round() / 10 if ties else cosines
    found = threshold_of(cosines)
    pairs = cosines.flatten().tolist()
    assert sum(pair >= found for pair in pairs) <= 0.01 * len(pairs)
    lower = max(pair for pair in pairs if pair < found)
    assert sum(pair >= lower for pair in pairs) > 0.01 * len(pairs)


def test_of_few_strangers_no_threshold_is_known():
    with pytest.raises(InputError, match="at least 50 images of strangers for a threshold of 1% false accepts, got 49"):
        threshold_of(torch.zeros(49, 3))


def test_a_picture_below_the_threshold_is_nobody_and_above_it_the_nearest():
    logits = torch.tensor([[3.0, 1.0], [1.0, 2.9], [2.9, 3.0], [-1.0, -2.0]])
    opened = OpenedModel(answer=lambda images: logits[: len(images)], accepts=3.0)
    model = ExternalModel(
        opened, answers="logits", access="scores", num_classes=2, normalisation=Normalisation(), where="here"
    )
    execution = Execution(ExecutionConfig(), "cpu")
    for accepts, wanted in ((opened.accepts, [0, -1, 1, -1]), (None, [0, 1, 1, 0])):
        view = view_of(
            PreparedTarget(model),
            "scores",
            num_classes=2,
            image_size=4,
            execution=execution,
            gives="scores",
            accepts=accepts,
        )
        assert view.labels(torch.zeros(4, 3, 4, 4)).tolist() == wanted
        torch.testing.assert_close(view.scores(torch.zeros(4, 3, 4, 4)), logits.softmax(1))


def test_the_same_embedder_is_known_though_its_space_is_turned_and_another_is_not():
    features = directions(30, width=16)
    turned = features @ torch.linalg.qr(torch.randn(16, 16, generator=torch.Generator().manual_seed(3)))[0]
    assert is_same_embedder(features, turned)
    noisy = functional.normalize(features + 0.3 * directions(30, width=16, seed=5), dim=1)
    assert not is_same_embedder(features, noisy) and not is_same_embedder(features, directions(30, seed=7))


def held(**changed):
    usual = {
        "embedder": b"weights",
        "kind": "torchscript",
        "name": "",
        "templates": directions(3),
        "owners": torch.tensor([0, 1, 1]),
        "threshold": 0.25,
        "enrolled": "digest",
    }
    return Recogniser(**{**usual, **changed})


@pytest.mark.parametrize(
    ("kind", "name"), [("torchscript", ""), ("torch_export", "of mine"), ("onnx", "x"), ("network", "synthetic")]
)
@pytest.mark.parametrize("threshold", [-1.0, 0.125, 1.0])
def test_every_part_comes_back_whatever_the_embedder_is(tmp_path, kind, name, threshold):
    wanted = held(kind=kind, name=name, threshold=threshold, enrolled="of day one", embedder=b"\0\1\xff")
    (tmp_path / "a.recogniser").write_bytes(write_recogniser(wanted))
    found = read_recogniser(tmp_path / "a.recogniser")
    for field in fields(Recogniser):
        got, stated = getattr(found, field.name), getattr(wanted, field.name)
        same = torch.equal(got, stated) if isinstance(stated, torch.Tensor) else got == stated
        assert same and type(got) is type(stated), field.name


@pytest.mark.parametrize(
    "changed",
    [
        {"kind": "function"},  # it could do anything
        {"kind": "endpoint"},
        {"kind": "recogniser"},
        {"kind": "network", "name": "eve"},
        {"owners": torch.tensor([0, 1, 3])},
        {"owners": torch.tensor([0, 1])},
        {"owners": torch.tensor([1, 1, -1])},
        {"templates": directions(3) * float("nan")},
        {"templates": directions(3).double()},
        {"threshold": 2.0},
        {"threshold": float("nan")},
    ],
)
def test_a_file_of_something_else_is_one_line(tmp_path, changed):
    path = tmp_path / "a.recogniser"
    path.write_bytes(write_recogniser(held(**changed)))
    with pytest.raises(InputError) as told:
        read_recogniser(path)
    assert str(told.value).startswith(f"{path}: expected a face embedder with its gallery, got: ")
    assert "\n" not in str(told.value)


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
    with pytest.raises(InputError, match=r"25\.0% of 24 images as stated, 100\.0% .*: use --image-size 16$"):
        tried({12: 2.0, 16: 9.0, 20: 4.0})
    assert set(asked) == {8, 12, 16, 20, 24, 32}
    tried({})  # no size is better: nothing is said
