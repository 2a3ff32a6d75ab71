"""Membership of a model, from Python: found where it memorised, no claim where the held-out images are others."""

import pytest
import torch

import smoothsweep
from smoothsweep.core.data.images import ImageSet
from smoothsweep.core.data.synthetic.faces import synthetic_faces
from smoothsweep.library import QUERIES_PER_IMAGE
from smoothsweep.workbench import PROBE_IMAGES

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
    assert (
        found.queries == 240 * QUERIES_PER_IMAGE == sum(asked) - 2 * PROBE_IMAGES
    )  # beside those that it is opened with
    assert "AUC of 1.00" in str(found)


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
    found = smoothsweep.membership(labels, *split, budget=50 * QUERIES_PER_IMAGE)
    assert (
        sum(asked) <= 50 * QUERIES_PER_IMAGE + 5 and set(found.attacks["access"]) == {"labels"} and found.members == 25
    )
    line = "^budget: expected at least 28 pictures, for one image of each kind, got 10$"
    with pytest.raises(smoothsweep.InputError, match=line):
        smoothsweep.membership(labels, *split, budget=10)


def test_copies_and_other_people_are_no_held_out_images(split):
    model = model_of(remembering(split[0], 12.0)[0])
    line = "copies alone"
    with pytest.raises(smoothsweep.InputError, match=line):
        smoothsweep.membership(model, split[0], split[0])
    fewer = ImageSet(images=split[1].images[:4], labels=torch.zeros(4, dtype=torch.int64), names=("a",))
    with pytest.raises(smoothsweep.InputError, match="held_out: expected the 10 people of training"):
        smoothsweep.membership(model, split[0], fewer)


def test_shadow_models_are_refused_before_the_model_is_asked(split):
    answer, asked = remembering(split[0], 12.0)
    labels = smoothsweep.Model(
        lambda images: answer(images).argmax(1), image_size=32, input_range=(0, 1), num_classes=PEOPLE, answers="labels"
    )
    small = {"architecture": "resnet_small"}
    few = [part.subset(torch.arange(len(part)) % EACH < 1) for part in split]
    refused = {
        "^shadows: expected 0, or an even number of at least 4, got 5$": (model_of(answer), split, 5, small),
        "^shadow_recipe: expected the shadow models' network, such as": (model_of(answer), split, 4, None),
        "^shadow_recipe: expected none without shadow models, got one": (model_of(answer), split, 0, small),
        "^shadow_recipe: .*epoch": (model_of(answer), split, 4, {**small, "epoch": 3}),
        "^shadow_recipe: .*224": (model_of(answer), split, 4, {"architecture": "vit_b_16"}),
        "^shadows: expected 0 for a model that shows labels alone, got 4$": (labels, split, 4, small),
        "^shadows: expected at least 2 images of every class": (model_of(answer), few, 4, small),
    }
    for line, (model, (inner, outer), count, recipe) in refused.items():
        with pytest.raises(smoothsweep.InputError, match=line) as caught:
            smoothsweep.membership(model, inner, outer, shadows=count, shadow_recipe=recipe, progress=False)
        assert "\n" not in str(caught.value) and sum(asked) <= 2 * PROBE_IMAGES * len(refused)


def test_copies_are_counted_and_left_out_of_every_number(split):
    """Three of the held-out images are training images of the same person, one of another person."""
    inside, outside = split
    taken = [int((inside.labels == label).nonzero()[0]) for label in (0, 1, 2, 3)]
    places = [int((outside.labels == label).nonzero()[0]) for label in (0, 1, 2, 4)]
    images = outside.images.clone()
    images[places] = inside.images[taken]
    answer, asked = remembering(inside, 12.0)
    found = smoothsweep.membership(
        model_of(answer), inside, ImageSet(images=images, labels=outside.labels, names=outside.names)
    )
    assert (found.copies, found.members, found.others) == (3, 120, 117)
    assert found.queries == 237 * QUERIES_PER_IMAGE + 3 * 2 == sum(asked) - 2 * PROBE_IMAGES, (
        "scores are asked of copies, too"
    )
