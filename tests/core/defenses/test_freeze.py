import pytest
import torch

from smoothsweep.core.defenses.structure import Freeze
from smoothsweep.core.errors import InputError


def state(model):
    return {name: value.clone() for name, value in model.state_dict().items()}


def changed(before, after):
    return {name for name in before if not torch.equal(before[name], after[name])}


@pytest.mark.parametrize(
    ("defense", "parts"),
    [
        (Freeze(stages=2), ("stem", "blocks.0")),
        (Freeze(layers=("blocks.0",)), ("blocks.0",)),
        (Freeze(fraction=0.2), ("stem", "blocks.0")),
    ],
)
def test_frozen_parts_keep_weights_and_statistics_while_the_rest_learns(defense, parts, tools):
    before = state(tools.prepared(defense))
    model, _ = tools.train(defense, epochs=1)
    assert defense.frozen_parts(model) == parts
    moved = changed(before, state(model))
    held = {name for name in before if name.startswith(tuple(f"backbone.{part}." for part in parts))}
    assert held and not moved & held
    assert moved == set(before) - held


def test_frozen_norms_use_their_own_statistics_in_training(tools):
    """Not those of the batch: that is what keeping them in evaluation mode means."""
    defense = Freeze(stages=1)
    model = tools.prepared(defense)
    model.backbone.stem[1].running_mean.fill_(3.0)
    images, labels = tools.colours(per_class=2)
    outputs = []
    model.backbone.stem.register_forward_hook(lambda *a: outputs.append(a[2].detach().clone()))
    tools.take_step(defense, model, images, labels)
    norm = model.backbone.stem[1]
    expected = (model.backbone.stem[0](images) - 3.0) / (norm.running_var + norm.eps).sqrt()[:, None, None]
    torch.testing.assert_close(outputs[0], expected.detach(), rtol=1e-4, atol=1e-4)
    assert model.backbone.blocks.training and not model.backbone.stem.training


def test_freezing_everything_or_nothing_is_refused(tools):
    with pytest.raises(InputError, match="defense freeze: stages: expected at most 3 with resnet_small, got 4"):
        Freeze(stages=4).check("resnet_small")
    with pytest.raises(InputError, match="expected at least one trained part of resnet_small, got 'all of them'"):
        Freeze(layers=("stem", "blocks.0", "blocks.1", "features")).check("resnet_small")
    with pytest.raises(InputError, match=r"expected layers of resnet_small \(stem, .*\), got 'layer1'"):
        Freeze(layers=("layer1",)).check("resnet_small")
    with pytest.raises(InputError, match=r"fraction: expected enough for the first block of .*, got 1e-05"):
        tools.prepared(Freeze(fraction=1e-5))
