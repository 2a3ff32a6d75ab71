"""Shadow models of a recipe that the judge names: whose they are, and which recipes are refused."""

import pytest
from tiny import tiny_sweep

from smoothsweep.core.errors import InputError
from smoothsweep.orchestrator.stages import judges
from smoothsweep.orchestrator.stages.weights import pretrained_architectures
from smoothsweep.sweeps.loaded import check
from smoothsweep.sweeps.schema import InversionSweep


def settings(of_judges, **changes):
    return InversionSweep.model_validate(tiny_sweep(judges=of_judges, grid={}, baseline={}, **changes))


def shadows_of(recipe, **judge):
    asked = settings({"membership": {"shadows": 4, **judge}}, recipe=recipe, attack=None, prior=None, public=None)
    return {key: stage.fingerprint for key, stage in judges.shadow_stages(asked).items()}


def test_shadow_models_of_a_named_recipe_are_those_that_a_target_of_it_has():
    """One set for all recipes of a sweep: no second training of what is there."""
    plain = {**tiny_sweep()["recipe"], "epochs": 3}
    other = {**plain, "defense": {"kind": "label_smoothing", "alpha": -0.2}}
    own = shadows_of(plain)
    assert len(own) == 4 and own == shadows_of(plain, shadow_recipe=plain) == shadows_of(other, shadow_recipe=plain)
    assert not set(own.values()) & set(shadows_of(other).values())


@pytest.mark.parametrize(
    ("judge", "line"),
    [
        ({"shadow_recipe": {}}, "shadow_recipe: expected none without shadow models"),
        ({"shadows": 4, "shadow_recipe": {"poison": {"kind": "badnets"}}}, r"shadow_recipe.poison: expected none"),
        (
            {"shadows": 4, "shadow_recipe": {"stop_at_test_acc": {"trial": {"recipe.epochs": 1}}}},
            "shadow_recipe.stop_at_test_acc: expected a number, got",
        ),
        ({"shadows": 4, "shadow_recipe": {"epoch": 1}}, "shadow_recipe.epoch"),
    ],
)
def test_a_recipe_that_no_shadow_model_can_have_is_refused_by_its_key(judge, line):
    with pytest.raises(InputError, match=rf"^x: judges\.membership\.?.*{line}") as caught:
        check(tiny_sweep(judges={"membership": judge}), "x")
    assert "\n" not in str(caught.value)


def test_weights_that_a_named_recipe_starts_from_are_looked_for():
    recipe = {**tiny_sweep()["recipe"], "architecture": "resnet18", "pretrained": True}
    asked = settings({"membership": {"shadows": 4, "shadow_recipe": recipe}})
    assert pretrained_architectures(asked) == ["resnet18"]
