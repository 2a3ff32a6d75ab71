"""An embedder with a gallery: templates, the threshold, the labels that it gives, and files that are none."""

from dataclasses import fields

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional

from smoothsweep.core.attacks.shared.execution import Execution, PreparedTarget
from smoothsweep.core.attacks.shared.view import view_of
from smoothsweep.core.devices import ExecutionConfig
from smoothsweep.core.errors import InputError
from smoothsweep.core.external.enrolling import (
    LEAST_STRANGERS,
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
from smoothsweep.core.models.inference import Normalisation


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
