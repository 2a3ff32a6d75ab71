import pytest
import torch

from smoothsweep.core.defenses.registry import DEFENSES, make_defense, restore_weights
from smoothsweep.core.errors import InputError
from smoothsweep.core.models.classifiers import build_classifier
from smoothsweep.core.models.recipe import TrainingRecipe
from tests.core.defenses.examples import EXAMPLES, example, told
from tests.nonsense import nonsense_for

PAIRS = [
    (name, architecture)
    for name in EXAMPLES
    for architecture in ("resnet_small", "vgg_small")
    if architecture not in told(name, "NOT_ON", ())
]


@pytest.mark.parametrize(("name", "parameters"), [(name, wrong) for name in DEFENSES for wrong in example(name).WRONG])
def test_parameters_out_of_range_are_one_clear_line(name, parameters):
    with pytest.raises(InputError, match=rf"^defense {name}.*: expected .*, got ") as error:
        make_defense(name, **parameters)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("name", DEFENSES)
def test_every_field_refuses_a_value_of_another_type_under_its_own_name(name):
    for field, value in nonsense_for(DEFENSES[name]):
        with pytest.raises(InputError) as refusal:
            make_defense(name, **{**EXAMPLES[name], field: value})
        assert str(refusal.value).startswith(f"defense {name}: {field}: expected "), (value, str(refusal.value))


@pytest.mark.parametrize(("name", "architecture"), PAIRS)
def test_every_defense_trains_under_negative_smoothing(name, architecture, tools):
    defense = make_defense(name, **EXAMPLES[name])
    model = tools.prepared(defense, architecture)
    images, labels = tools.colours(per_class=4)
    before = images.clone()
    calls = []

    def forward(batch):
        calls.append(len(batch))
        return model(batch)

    result = tools.take_step(defense, model, images, labels, alpha=-0.05, forward=forward)
    result.loss.backward()
    assert calls == [16 * told(name, "PASSES", 1)]  # once
    assert result.loss.ndim == 0 and result.loss.isfinite() and result.logits.shape == (16, 4)
    assert all(not fact.requires_grad and fact.isfinite() for fact in result.facts.values())
    gradients = [p.grad for p in model.parameters() if p.requires_grad]
    assert gradients and all(gradient is not None and gradient.isfinite().all() for gradient in gradients)
    assert torch.equal(images, before)


@pytest.mark.parametrize(("name", "architecture"), PAIRS)
def test_weights_come_back_into_a_prepared_network(name, architecture, tools):
    defense = make_defense(name, **EXAMPLES[name])
    trained = tools.prepared(defense, architecture, seed=3).eval()
    again = build_classifier(architecture, 4, seed=9, protocol="clean")
    restore_weights(again, defense, trained.state_dict(), where="file")
    images, _ = tools.colours(per_class=1)
    torch.testing.assert_close(again.eval()(images), trained(images), rtol=0, atol=0)


@pytest.mark.parametrize("name", [name for name, _ in PAIRS])
def test_preparing_leaves_the_global_generator_alone(name, tools):
    model = build_classifier("resnet_small", 4, protocol="clean")
    before = torch.get_rng_state()
    make_defense(name, **EXAMPLES[name]).prepare(model, generator=tools.generator())
    assert torch.equal(torch.get_rng_state(), before)


def test_only_who_says_so_changes_the_recipe():
    recipe = TrainingRecipe(batch_size=64)
    for name, parameters in EXAMPLES.items():
        changed = make_defense(name, **parameters).adjust_recipe(recipe)
        assert (changed == recipe) is not told(name, "CHANGES_RECIPE", False)


@pytest.mark.parametrize("name", DEFENSES)
def test_the_smoothing_reaches_the_first_loss_alone(name, tools):
    """What a defense shows the network, trains beside it and measures of its own is the same under any smoothing."""
    shown, losses = [[], []], []
    for alpha, found in zip((0.0, -0.5), shown, strict=True):
        defense = make_defense(name, **told(name, "UNSMOOTHED", EXAMPLES[name]))
        model = tools.prepared(defense)

        def forward(batch, found=found, model=model):
            found.append(batch)
            return model(batch)

        beside, (images, labels) = tools.companion(defense, model), tools.colours(per_class=2)
        result = tools.take_step(defense, model, images, labels, alpha=alpha, beside=beside, forward=forward)
        found += [fact for key, fact in result.facts.items() if key.endswith("_loss")]
        found += [] if beside is None else [value for value in beside.state_dict().values() if torch.is_tensor(value)]
        losses.append(result.loss.item())
    assert len(shown[0]) == len(shown[1]) and all(map(torch.equal, *shown))
    assert losses[0] != losses[1]
