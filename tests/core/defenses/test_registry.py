import dataclasses

import pytest
import torch

from smoothsweep.core.defenses.base import Defense
from smoothsweep.core.defenses.registry import DEFENSES, make_defense, restore_weights
from smoothsweep.core.errors import InputError
from smoothsweep.core.models.classifiers import build_classifier
from smoothsweep.core.models.recipe import TrainingRecipe
from tests.defense_examples import EXAMPLES
from tests.nonsense import nonsense_for

WRONG = {
    "mid": [{"beta": -1}, {"beta": float("nan")}, {"beta": 0.1, "k": 0}, {"beta": 0.1, "beta_warmup": 1.5}],
    "bido": [
        {"lambda_input": -1, "lambda_label": 1},
        {"lambda_input": 1, "lambda_label": 1, "measure": "mmd"},
        {"lambda_input": 1, "lambda_label": 1, "coco_norm": "spectral"},
        {"lambda_input": 1, "lambda_label": 1, "measure": "coco", "coco_norm": "nuclear"},
        {"lambda_input": 1, "lambda_label": 1, "label_kernel": "cosine"},
        {"lambda_input": 1, "lambda_label": 1, "batches": "sorted"},
        {"lambda_input": 1, "lambda_label": 1, "batches": "random", "images_per_class": 4},
        {"lambda_input": 1, "lambda_label": 1, "images_per_class": 1},
        {"lambda_input": 1, "lambda_label": 1, "layers": []},
        {"lambda_input": 1, "lambda_label": 1, "layers": ["stem", "stem"]},
    ],
    "freeze": [{}, {"stages": 0}, {"stages": 1, "fraction": 0.5}, {"fraction": 1.0}, {"layers": []}, {"stages": True}],
    "random_erasing": [
        {"p": 0},
        {"area": [0.4, 0.1]},
        {"area": [0.0, 0.1]},
        {"area": [0.1, 1.1]},
        {"aspect": [0.0, 1.0]},
        {"fill": "black"},
        {"fill": "mean", "colour": [0, 0, 0]},
        {"colour": [0, 0]},
        {"colour": [0, 0, 2]},
    ],
    "skip_removal": [
        {"scale": 1.0},
        {"scale": -0.1},
        {"skip": "celeba"},
        {"skip": [1.0, 1.0]},
        {"skip": [1.0, 1.5]},
        {"skip": []},
        {"skip": [1.0, 0.0], "scale": 0.5},
    ],
    "dropout": [{"p": 0}, {"p": 1}, {"p": "half"}],
    "weight_decay": [{"value": 0}],
    "focal": [{"gamma": 0}, {"gamma": float("inf")}],
    "confidence_penalty": [{"beta": 0}],
    "mixup": [{"alpha": 0}],
    "logit_clipping": [{"norm": 0}, {"norm": "long"}],
    "loft": [{"rank": 0}, {"rank": 2.5}, {"rank": 5, "norm": "batch"}],
    "ssd": [{"eps": 0}, {"eps": 1, "temperature": 0}, {"eps": 1, "share": 1.0}, {"eps": 1, "draws": "never"}],
    "dp_sgd": [{"noise": 0}, {"noise": -1}, {"noise": 1, "clip": 0}, {"noise": float("inf")}],
    "trap_mid": [{"blend": 0}, {"blend": 1}, {"weight": 0}, {"weight": 1}, {"step": 0}, {"smooth_traps": "both"}],
    "at_at": [{"weight": 0}, {"eps": 0}, {"step": -1e-4}, {"steps": 0}],
}
PAIRS = [
    (name, architecture)
    for name in EXAMPLES
    for architecture in ("resnet_small", "vgg_small")
    if (name, architecture) != ("skip_removal", "vgg_small")
]


def test_the_table_is_complete():
    assert set(EXAMPLES) == set(DEFENSES)
    assert set(WRONG) == set(DEFENSES) - {"label_smoothing"}
    for kind in DEFENSES.values():
        assert issubclass(kind, Defense) and dataclasses.is_dataclass(kind)
        assert kind.combines_with_smoothing is None or len(kind.combines_with_smoothing) > 10


@pytest.mark.parametrize(("name", "parameters"), [(name, wrong) for name in WRONG for wrong in WRONG[name]])
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


def test_unknown_names_and_parameters_are_refused():
    with pytest.raises(InputError, match=r"defense: expected one of label_smoothing, mid, .*got 'dp'"):
        make_defense("dp")
    with pytest.raises(InputError, match="defense mid: does not read 'lambda'; it reads beta, k, beta_warmup"):
        make_defense("mid", **{"beta": 0.1, "lambda": 1})
    with pytest.raises(InputError, match="defense mid: expected beta, got nothing"):
        make_defense("mid")
    with pytest.raises(InputError, match="does not read 'alpha'; it reads no parameter"):
        make_defense("label_smoothing", alpha=0.1)


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
    assert calls == ([32] if name in ("at_at", "trap_mid") else [16])  # once: with the altered images in the same batch
    assert result.loss.ndim == 0 and result.loss.isfinite() and result.logits.shape == (16, 4)
    assert all(not fact.requires_grad and fact.isfinite() for fact in result.facts.values())
    gradients = [p.grad for p in model.parameters() if p.requires_grad]
    assert gradients and all(gradient is not None and gradient.isfinite().all() for gradient in gradients)
    assert torch.equal(images, before)


@pytest.mark.parametrize("name", ["mid", "bido", "skip_removal", "freeze"])
def test_defenses_that_reach_into_a_network_reach_into_a_resnet18(name, tools):
    defense = make_defense(name, **EXAMPLES[name])
    model = tools.prepared(defense, "resnet18")
    images, labels = tools.colours(per_class=2)
    result = tools.take_step(defense, model, images, labels)
    result.loss.backward()
    assert result.loss.isfinite() and model.head.weight.grad.abs().sum() > 0


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


def test_weights_of_another_defense_are_one_clear_line(tools):
    plain, mid = make_defense("label_smoothing"), make_defense("mid", beta=0.1)
    undefended, defended = (tools.prepared(d).state_dict() for d in (plain, mid))
    new = build_classifier("resnet_small", 4, protocol="clean")
    with pytest.raises(InputError, match=r"^file: expected weights of resnet_small trained with defense mid, got none"):
        restore_weights(new, mid, undefended, where="file")
    new = build_classifier("resnet_small", 4, protocol="clean")
    with pytest.raises(InputError, match=r"defense label_smoothing, got head\.statistics\.bias and 1 more"):
        restore_weights(new, plain, defended, where="file")
    new = build_classifier("resnet_small", 4, protocol="clean")
    with pytest.raises(InputError, match=r"mid: head\.weight \[4, 8\], got \[4, 64\]"):
        restore_weights(new, make_defense("mid", beta=0.1, k=8), defended, where="file")


def test_only_weight_decay_changes_the_recipe():
    recipe = TrainingRecipe(batch_size=64)
    for name, parameters in EXAMPLES.items():
        changed = make_defense(name, **parameters).adjust_recipe(recipe)
        assert (changed == recipe) == (name != "weight_decay")
