"""Plug & Play with other parts: its stages swapped, adapted to a target, and nothing but its selection."""

import pytest
import torch

from smoothsweep.core.attacks.ppa.config import OptimiseConfig, SelectConfig
from smoothsweep.core.attacks.ppa.variants import select_by_confidence
from smoothsweep.core.attacks.registry import make_attack
from smoothsweep.core.attacks.shared.base import AttackInputs
from smoothsweep.core.errors import InputError
from tests.attack_examples import EXAMPLES
from tests.core.attacks.looking import Counted, look, recognised


def test_selection_only_gives_images_of_the_pool_as_they_are(target, given):
    attack = make_attack("selection_only", **EXAMPLES["selection_only"])
    own = given("selection_only")
    found = attack.invert(look(target, "scores"), own, 1, seed=7)
    pool, confidences = own.parts["pool"], own.parts["candidates"]["confidences"][:, 1]
    assert torch.equal(found.w, pool["w"][found.rows["pool_index"]])
    assert torch.equal(found.scores, confidences.sort(descending=True).values[:4])


@pytest.mark.parametrize("select", ["augmented_confidence", "top_confidence"])
@pytest.mark.parametrize("optimise", ["adam", "none"])
@pytest.mark.parametrize("sample", ["top_confidence", "random"])
def test_the_stages_of_plug_and_play_can_be_swapped(sample, optimise, select, target, given):
    changed = {"sample": {"kind": sample}, "optimise": {"kind": optimise}, "select": {"kind": select}}
    settings = {key: value for key, value in EXAMPLES["ppa"].items() if key not in ("steps", "lr", "selection_repeats")}
    attack = make_attack("ppa", **settings, **changed)
    own = given("ppa")
    found = attack.invert(look(target), own, 1, seed=7)
    pool, confidences = own.parts["pool"]["w"], own.parts["candidates"]["confidences"][:, 1]
    best = confidences.argsort(descending=True)[:8]
    assert found.w.shape[0] == 4 and found.scores.tolist() == sorted(found.scores.tolist(), reverse=True)
    assert (set(found.rows["pool_index"].tolist()) <= set(best.tolist())) == (sample == "top_confidence")
    assert torch.equal(found.w, pool[found.rows["pool_index"]][:, :1]) == (optimise == "none")
    if select == "top_confidence" and optimise == "none":
        order = sorted(found.rows["pool_index"].tolist(), key=lambda row: -float(confidences[row]))
        assert sample == "random" or order[0] in best[:4].tolist()


ADAPTED = {
    "logit, averaged over changed views": {"loss": "logit", "average": {"views": 3}},
    "margin, averaged over noise": {"loss": "max_margin", "average": {"views": 2, "kind": "noise"}},
    "tempered, by margin": {"loss": "cross_entropy", "temperature": {}, "select": {"kind": "augmented_margin"}},
    "restarted": {"restarts": {"count": 2}},
}


@pytest.mark.parametrize("what", list(ADAPTED))
def test_plug_and_play_adapted_to_a_target_leaks_and_is_counted_and_depends_on_the_class_alone(
    what, target, judge, given
):
    settings = ADAPTED[what]
    attack, own = make_attack("ppa", **{**EXAMPLES["ppa"], "steps": 12, **settings}), given("ppa")
    if "temperature" in settings:
        own = AttackInputs(**{**vars(own), "parts": {**own.parts, "temperature": {"temperature": torch.tensor([2.0])}}})
    counted = Counted(target)
    view = look(counted)
    found = {c: attack.invert(view, own, c, seed=7) for c in (3, 1)}
    latents = 8 * settings.get("restarts", {}).get("count", 1)
    exact = 2 * latents * (12 * settings.get("average", {}).get("views", 1) + 6)
    assert view.queries == exact and 0 <= sum(counted.shown) - exact <= 4 + 2  # what measures the batch is no query
    alone = attack.invert(look(Counted(target)), own, 1, seed=7)
    assert torch.equal(alone.w, found[1].w) and torch.equal(alone.scores, found[1].scores)
    hits = [recognised(judge, own.prior, one.w, c) for c, one in found.items()]
    assert sum(hits) / len(hits) >= 0.5
    assert ("margin" in alone.rows) == ("select" in settings)


def test_learning_rate_milestones():
    config = OptimiseConfig(steps=5, lr=1.0, lr_milestones=(2, 4), lr_gamma=0.5)
    assert [config.lr_at(step) for step in range(5)] == [1, 1, 0.5, 0.5, 0.25]


def test_a_discriminator_comes_with_a_folder_alone():
    attack = make_attack("ppa", steps=1, discriminator_weight=0.1, pool={"crop": None})
    attack.check(image_size=64, prior_kind="folder", has_public=False)
    with pytest.raises(InputError, match=r"^attack\.discriminator_weight: expected a prior of kind folder.* shipped$"):
        attack.check(image_size=64, prior_kind="shipped", has_public=False)


@pytest.mark.parametrize(
    ("settings", "published"),
    [
        ({}, True),
        ({"loss": "cross_entropy"}, True),
        ({"loss": "logit"}, False),
        ({"loss": "max_margin"}, False),
        ({"select": {"kind": "augmented_margin"}}, False),
        ({"restarts": {"count": 2}}, False),
        ({"average": {"views": 4}}, False),
        ({"loss": "cross_entropy", "temperature": {}}, False),
    ],
)
def test_only_the_two_losses_as_published_are_what_a_defense_is_usually_measured_with(settings, published):
    assert make_attack("ppa", **settings).published is published


class Pixels(torch.nn.Module):
    """In the place of a prior: a latent [1, 3] is the colour of its picture."""

    def synthesize(self, w):
        return w.flatten(1)[:, :, None, None].expand(-1, -1, 4, 4)


def test_the_surest_images_come_first():
    w = torch.randn(51, 1, 3, generator=torch.Generator().manual_seed(0))
    target = torch.nn.Sequential(torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten())
    config = SelectConfig(selected=4, selection_repeats=1)
    found = select_by_confidence(Pixels(), target, w, 1, config, transform=lambda images: images, device="cpu")
    confidences = w[:, 0].softmax(1)[:, 1]
    best = confidences.sort(descending=True)
    torch.testing.assert_close(found.all_scores, confidences)
    assert torch.equal(found.order, best.indices[:4]) and torch.equal(found.w, w[best.indices[:4]])
    torch.testing.assert_close(found.scores, best.values[:4])
