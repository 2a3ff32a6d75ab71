"""Membership of a model in memory: found where it memorised, no claim where the held-out images are others."""

import pytest
import torch

import smoothsweep
from smoothsweep.core.audit.membership import SHOWN
from smoothsweep.core.audit.model import TRIED
from smoothsweep.core.data.images import ImageSet
from smoothsweep.core.data.synthetic import synthetic_faces

PEOPLE, EACH = 10, 24


@pytest.fixture(scope="module")
def split():
    """Training and held-out images of the same people."""
    faces = synthetic_faces(identities=PEOPLE, per_identity=EACH, size=32, spread=0.4, seed=5, population="private")
    inside = torch.arange(len(faces)) % 2 == 0
    return faces.subset(inside), faces.subset(~inside)


def remembering(seen: ImageSet, strength):
    """Sure of images that it knows, unsure of others, and right of either."""
    known = {image.numpy().tobytes(): int(label) for image, label in zip(seen.images, seen.labels, strict=True)}
    asked = []

    def answer(images):
        asked.append(len(images))
        logits = torch.randn(len(images), PEOPLE, generator=torch.Generator().manual_seed(len(asked)))
        for row, image in enumerate((images * 255).round().to(torch.uint8)):
            label = known.get(image.numpy().tobytes())
            if label is not None:
                logits[row, label] += strength
        return logits

    return answer, asked


def model_of(answer):
    return smoothsweep.Model(answer, image_size=32, input_range=(0, 1), num_classes=PEOPLE)


def test_a_model_that_remembers_its_images_is_told(split):
    answer, asked = remembering(split[0], 12.0)
    found = smoothsweep.membership(model_of(answer), *split)
    assert found.holds and found.attacks["auc"].iloc[0] > 0.95 and found.members == found.others == 120
    assert found.queries == 240 * SHOWN == sum(asked) - 2 * TRIED  # beside those that it is opened with
    assert "AUC of 1.00" in str(found) and "a stronger attack may find more" in str(found)


def test_of_a_model_that_remembers_none_nothing_is_told(split):
    found = smoothsweep.membership(model_of(remembering(split[0], 0.0)[0]), *split)
    margin = found.attacks.set_index("attack").loc["margin"]
    assert margin["low"] <= 0.5 <= margin["high"] and found.copies == 0


def test_no_claim_of_images_that_differ_in_more_than_membership(split):
    other = ImageSet(
        images=(split[1].images.int() + 25).clamp(0, 255).to(torch.uint8), labels=split[1].labels, names=split[1].names
    )
    found = smoothsweep.membership(model_of(remembering(split[0], 12.0)[0]), split[0], other)
    assert not found.holds and str(found).startswith("No claim about membership")


def test_a_budget_is_kept_and_labels_alone_are_enough(split):
    answer, asked = remembering(split[0], 12.0)
    labels = smoothsweep.Model(
        lambda images: answer(images).argmax(1), image_size=32, input_range=(0, 1), num_classes=PEOPLE, answers="labels"
    )
    found = smoothsweep.membership(labels, *split, budget=50 * SHOWN)
    assert sum(asked) <= 50 * SHOWN + 5 and set(found.attacks["access"]) == {"labels"} and found.members == 25
    with pytest.raises(smoothsweep.InputError, match="budget: expected at least"):
        smoothsweep.membership(labels, *split, budget=10)


def test_copies_and_other_people_are_no_held_out_images(split):
    model = model_of(remembering(split[0], 12.0)[0])
    with pytest.raises(smoothsweep.InputError, match="held_out: expected images that are no training images"):
        smoothsweep.membership(model, split[0], split[0])
    fewer = ImageSet(images=split[1].images[:4], labels=torch.zeros(4, dtype=torch.int64), names=("a",))
    with pytest.raises(smoothsweep.InputError, match="held_out: expected the 10 people of training"):
        smoothsweep.membership(model, split[0], fewer)
