"""What every defense is held to; label smoothing and its schedules; defenses that change labels; DP-SGD."""

import json
import os
import sys
from dataclasses import MISSING, fields
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from smoothsweep.core.defenses.base import (
    smoothed_cross_entropy,
    smoothed_targets,
)
from smoothsweep.core.defenses.dp_sgd import DpSgd, epsilon
from smoothsweep.core.defenses.labels import PLAIN, recipe_words
from smoothsweep.core.defenses.registry import DEFENSES, make_defense, restore_weights
from smoothsweep.core.defenses.schedules import RETURNING, AlphaSchedule, alpha_at, validate_schedule
from smoothsweep.core.errors import InputError
from smoothsweep.core.models.classifiers import build_classifier
from smoothsweep.core.models.recipe import TrainingRecipe
from smoothsweep.orchestrator.result.format import ascii_text
from tests.core.defenses.examples import EXAMPLES, example, told
from tests.stage_numbers import differences, row_of, row_of_all

GOLDEN = np.load(Path(__file__).parents[2] / "golden" / "label_smoothing.npz")
LOGITS_LABEL_SMOOTHING = torch.from_numpy(GOLDEN["ls_logits"])
LABELS_LABEL_SMOOTHING = torch.from_numpy(GOLDEN["ls_targets"])


@pytest.mark.parametrize("row", range(6))
def test_value_and_gradient_equal_the_official_loss(row):
    logits = LOGITS_LABEL_SMOOTHING.clone().requires_grad_()
    loss = smoothed_cross_entropy(logits, LABELS_LABEL_SMOOTHING, float(GOLDEN["ls_alphas"][row]))
    loss.backward()
    assert abs(loss.item() - GOLDEN["ls_loss"][row]) < 2e-6
    assert abs(loss.item() - GOLDEN["ls_soft_target_ce_loss"][row]) < 2e-6
    torch.testing.assert_close(logits.grad, torch.from_numpy(GOLDEN["ls_grad"][row]), rtol=0, atol=1e-7)


@pytest.mark.parametrize(("alpha", "expected"), [(0.3, [0.8, 0.1, 0.1]), (-0.3, [1.2, -0.1, -0.1])])
def test_targets_of_the_papers_example(alpha, expected):
    assert smoothed_targets(torch.tensor([0]), 3, alpha)[0].tolist() == pytest.approx(expected)


@given(alpha=st.floats(-50, 1), seed=st.integers(0, 1000), classes=st.integers(2, 12))
def test_gradient_is_softmax_minus_target(alpha, seed, classes):
    """Eqs. 12 and 13, for any factor."""
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(5, classes, generator=generator, dtype=torch.float64).requires_grad_()
    labels = torch.randint(classes, (5,), generator=generator)
    smoothed_cross_entropy(logits, labels, alpha, reduction="none").sum().backward()
    expected = logits.detach().softmax(1) - smoothed_targets(labels, classes, alpha).double()
    torch.testing.assert_close(logits.grad, expected, rtol=1e-5, atol=1e-5)


def test_without_smoothing_an_excluded_class_stays_harmless():
    logits = torch.tensor([[0.0, -torch.inf, 0.0]])
    assert smoothed_cross_entropy(logits, torch.tensor([0]), 0.0).item() == pytest.approx(np.log(2))


@pytest.mark.parametrize("alpha", [1.0001, float("nan"), float("inf"), float("-inf"), True, "0.1"])
def test_impossible_factors_are_refused(alpha):
    with pytest.raises(InputError, match="alpha: expected a finite number of at most 1"):
        smoothed_cross_entropy(LOGITS_LABEL_SMOOTHING, LABELS_LABEL_SMOOTHING, alpha)


WORDS = [
    ({"kind": "bido", "lambda_input": 0.05, "lambda_label": 0.5, "measure": "coco"}, "BiDO 0.05 / 0.5, COCO"),
    (
        {"kind": "label_smoothing", "alpha": -0.05, "schedule": {"kind": "linear", "start": 0.2}},
        "smoothing -0.05, linear start 0.2",
    ),
    (
        {"kind": "label_smoothing", "schedule": {"kind": "piecewise", "points": [[0.5, 0.0], [1.0, -0.1]]}},
        "smoothing -0.1, piecewise points 0.5 0 1 -0.1",
    ),
    ({"kind": "label_smoothing", "alpha": 0.0}, PLAIN),
    ({"kind": "dropout", "p": 0.5, "smoothing": {"alpha": -0.05}}, "dropout 0.5 + smoothing -0.05"),
    ({"kind": "somebody_elses", "a": 1, "b": 2}, "somebody elses, a 1, b 2"),
]


@pytest.mark.parametrize(("defense", "label"), WORDS)
def test_labels_are_the_words_people_use(defense, label):
    assert ascii_text(recipe_words(defense).label).replace("\u2212", "-") == label


def test_the_defaults_of_a_family_go_without_saying():
    told = {kind: defense.family for kind, defense in DEFENSES.items() if defense.family is not None}
    assert len(told) > 15 and len({family.name for family in told.values()}) == len(told)
    for kind, family in told.items():
        defaults = {field.name: field.default for field in fields(DEFENSES[kind])}
        needed = {name: 0.5 for name, default in defaults.items() if default is MISSING}
        assert dict(family.defaults).items() <= defaults.items()
        spelled = needed | {name: value for name, value in defaults.items() if name not in needed}
        assert recipe_words({"kind": kind, **spelled}) == recipe_words({"kind": kind, **needed})


def test_strength_grows_away_from_plain_training():
    def order(**defense):
        return recipe_words(defense).order

    assert order(kind="dropout", p=0.3) < order(kind="dropout", p=0.5)
    assert order(kind="skip_removal", scale=0.9) < order(kind="skip_removal", scale=0.2) < order(kind="skip_removal")
    assert order(kind="at_at", weight=0.01) < order(kind="at_at") < order(kind="at_at", weight=0.1)
    assert order(kind="random_erasing", p=0.5) < order(kind="random_erasing")
    assert order(kind="random_erasing") < order(kind="random_erasing", area=[0.4, 0.6])
    assert order(kind="freeze", layers=["stem"]) is None


SIMPLE = st.one_of(st.none(), st.booleans(), st.integers(-9, 9), st.floats(), st.text(max_size=3))
VALUES = st.one_of(
    SIMPLE,
    st.lists(SIMPLE, max_size=3),
    st.dictionaries(st.sampled_from(["kind", "alpha", "start", "points"]), SIMPLE, max_size=2),
)
OWN = {field.name for kind in DEFENSES.values() for field in fields(kind)}
NAMES = sorted(OWN | {"alpha", "schedule", "smoothing"})


@settings(suppress_health_check=[HealthCheck.too_slow])  # drawing is slow on a busy machine, the words are not
@given(st.sampled_from([*DEFENSES, "other", "none"]), st.dictionaries(st.sampled_from(NAMES), VALUES, max_size=4))
def test_a_card_may_hold_anything(kind, parameters):
    words = recipe_words({"kind": kind, **parameters})
    assert words.label and words.strength and words.mark


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


KEPT = Path(__file__).with_name("numbers.json")
CASES = {name: (name, EXAMPLES[name], told(name, "ALPHA", -0.05)) for name in DEFENSES} | {
    f"{name}, {field} {value}": (name, {**told(name, "NEEDED", {}), **beside, field: value}, told(name, "ALPHA", -0.05))
    for name in DEFENSES
    for field, (beside, value) in (*example(name).TRAVEL.items(), *told(name, "MORE", {}).items())
}
"""What is tried -> its kind, its parameters, the smoothing beside it."""


def numbers_of_a_step(name, parameters, alpha, tools):
    """A training's first step in its second epoch, and what the network answers after it in each of its ways."""
    defense = make_defense(name, **parameters)
    model, (images, labels) = tools.prepared(defense), tools.colours(per_class=4)
    decay = defense.adjust_recipe(TrainingRecipe()).weight_decay
    beside, batches = tools.companion(defense, model), defense.sampler(labels, 8, tools.generator(1))
    result = tools.take_step(defense, model, images, labels, alpha=alpha, epoch=1, beside=beside)
    result.loss.backward()
    torch.optim.SGD(model.parameters(), lr=0.01, weight_decay=decay).step()
    found = {"loss": result.loss, "logits": result.logits, **result.facts}
    found |= {} if batches is None else {"batches": torch.cat(batches)}
    defense.fit(model.eval(), result.logits.detach(), labels)
    for way in (None, *defense.readouts):
        defense.read(model, way, protocol="paper", seed=2)
        found[f"answers, {way}"] = model(images)
    rows = {key: row_of(value.detach().numpy()) for key, value in found.items()}
    for key, network in (("weights", model), ("beside", beside)):
        if network is not None:
            state = {one: value for one, value in network.state_dict().items() if torch.is_tensor(value)}
            rows[key] = row_of_all({one: row_of(value.numpy()) for one, value in state.items()})
    return rows


@pytest.mark.parametrize("case", CASES)
def test_a_step_of_every_defense_gives_the_numbers_that_are_kept(case, tools):
    """With each parameter at a second value. Numbers that are to change are kept anew by SMOOTHSWEEP_KEEP_NUMBERS=1."""
    found, kept = numbers_of_a_step(*CASES[case], tools), json.loads(KEPT.read_text()) if KEPT.exists() else {}
    if os.environ.get("SMOOTHSWEEP_KEEP_NUMBERS"):
        lines = (f"{json.dumps(key)}: {json.dumps(rows)}" for key, rows in sorted({**kept, case: found}.items()))
        KEPT.write_text("{\n" + ",\n".join(lines) + "\n}\n")
    else:
        assert set(kept) == set(CASES) and differences(kept[case], found) == []


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


def test_epsilons_that_opacus_states():
    assert epsilon(1.0, 0.01, 1000, delta=1e-5) == pytest.approx(2.1014, abs=1e-4)
    recipe = TrainingRecipe(batch_size=128, epochs=100)
    found = [DpSgd(noise=noise).guarantees(recipe, images=34_000, epochs=100)["dp_epsilon"] for noise in (0.5, 1, 2, 4)]
    assert found == pytest.approx([27.5, 3.57, 1.28, 0.57], rel=0.01)
    stopped = DpSgd(noise=1.0).guarantees(recipe, images=34_000, epochs=10)["dp_epsilon"]
    assert 0 < stopped < found[1]


def test_no_epsilon_is_stated_where_batches_are_too_small_for_it():
    found = DpSgd(noise=1.0).guarantees(TrainingRecipe(batch_size=31), images=100, epochs=1)
    assert found == {"dp_epsilon": None}


@pytest.mark.parametrize("architecture", ["resnet_small", "vgg_small", "resnet18", "ir50_64"])
def test_opacus_finds_nothing_left_that_mixes_images(architecture):
    from opacus.validators import ModuleValidator

    model = build_classifier(architecture, 4, protocol="clean").train()
    assert ModuleValidator.validate(model)
    DpSgd(noise=1.0).prepare(model, generator=torch.Generator())
    assert ModuleValidator.validate(model) == []


BIDO = {"lambda_input": 1, "lambda_label": 1}
REFUSED = [
    (
        "at_at",
        {},
        lambda d: d.adjust_recipe(TrainingRecipe(precision="bf16")),
        "a recipe with precision fp32, got 'bf16'",
    ),
    (
        "bido",
        BIDO,
        lambda d: d.adjust_recipe(TrainingRecipe(batch_size=30)),
        r"batch_size of two or more .* \(4\), got 30",
    ),
    ("bido", {**BIDO, "layers": ("blocks.1",)}, "vgg_small", r"layers of vgg_small \(layers\.0, .*\), got 'blocks\.1'"),
    (
        "dp_sgd",
        {"noise": 1.0},
        lambda d: d.adjust_recipe(TrainingRecipe(precision="bf16")),
        "precision fp32, got 'bf16'",
    ),
    (
        "dp_sgd",
        {"noise": 1.0},
        lambda d: d.sampler(torch.zeros(200), 201, torch.Generator()),
        "expected a batch_size of at most the 200 images, got 201",
    ),
    ("freeze", {"stages": 4}, "resnet_small", "stages: expected at most 3 with resnet_small, got 4"),
    ("freeze", {"layers": ("stem", "blocks.0", "blocks.1", "features")}, "resnet_small", "got 'all of them'"),
    ("freeze", {"layers": ("layer1",)}, "resnet_small", r"expected layers of resnet_small \(stem, .*\), got 'layer1'"),
    (
        "freeze",
        {"fraction": 1e-5},
        lambda d: d.prepare(build_classifier("resnet_small", 4, protocol="clean"), generator=torch.Generator()),
        "fraction: expected enough for the first block of .*, got 1e-05",
    ),
    ("skip_removal", {}, "vgg_small", "it has no skip connections"),
    ("skip_removal", {}, "vit_b_16", "its blocks form no stages"),
    ("skip_removal", {"scale": 0.5}, "densenet121", "scale: expected 0 with densenet121, whose skips are concatenated"),
    (
        "skip_removal",
        {"skip": "stanford_dogs"},
        "resnet34",
        "an architecture with official factors .resnet50, resnet101",
    ),
    ("skip_removal", {"skip": (1.0, 0.0)}, "resnet18", "expected 4 factors with resnet18, one for each stage"),
    ("skip_removal", {"skip": (1.0, 0.5, 1.0, 1.0)}, "densenet121", "skip: expected 0 or 1 with densenet121"),
    (
        "weight_decay",
        {"value": 0.5},
        lambda d: d.adjust_recipe(TrainingRecipe(weight_decay=0.01)),
        r"expected a recipe without weight_decay, got 0\.01",
    ),
]
"""Kind, parameters, what is asked of it (a name: whether it may be applied to this architecture), the sentence."""


@pytest.mark.parametrize(("name", "parameters", "asked", "message"), REFUSED)
def test_what_a_defense_cannot_be_trained_with_is_one_line(name, parameters, asked, message):
    defense = make_defense(name, **parameters)
    with pytest.raises(InputError, match=message) as refusal:
        defense.check(asked) if isinstance(asked, str) else asked(defense)
    assert "\n" not in str(refusal.value)


def test_without_opacus_one_line_says_how_to_have_it(monkeypatch):
    monkeypatch.delitem(sys.modules, "opacus", raising=False)
    monkeypatch.setattr(sys, "path", [])
    with pytest.raises(InputError, match=r"expected opacus beside smoothsweep \(pip install 'smoothsweep\[dp\]'\)"):
        DpSgd(noise=1.0).adjust_recipe(TrainingRecipe())


RISING = ("constant", "ramp", "linear", "cosine", "step")

fractions = st.floats(0, 1)
alphas = st.floats(-5, 1)
epoch_counts = st.integers(1, 130)


def alpha_curve(schedule, *, alpha, epochs):
    return [alpha_at(schedule, alpha=alpha, epoch=epoch, epochs=epochs) for epoch in range(epochs)]


@st.composite
def rising_schedules(draw):
    """Any valid schedule that goes from 0 to alpha, `reference` in its scaled form included."""
    kind = draw(st.sampled_from([*RISING, "reference"]))
    if kind == "reference":
        return AlphaSchedule(kind=kind, scaled=True)
    if kind == "step":
        return AlphaSchedule(kind=kind, at=draw(st.floats(0, 1, exclude_max=True)))
    if kind == "constant":
        return AlphaSchedule(kind=kind)
    start = draw(st.floats(0, 1, exclude_max=True))
    return AlphaSchedule(kind=kind, start=start, end=draw(st.floats(start, 1)))


@st.composite
def piecewise_schedules(draw):
    knots = sorted(draw(st.sets(fractions, min_size=1, max_size=6)))
    return AlphaSchedule(kind="piecewise", points=tuple((knot, draw(alphas)) for knot in knots))


@pytest.mark.parametrize(
    ("array", "alpha", "epochs"),
    [("m005_100ep", -0.05, 100), ("m005_80ep", -0.05, 80), ("m005_120ep", -0.05, 120), ("m03_100ep", -0.3, 100)],
)
def test_reference_equals_the_official_schedule(array, alpha, epochs):
    curve = alpha_curve(AlphaSchedule(kind="reference"), alpha=alpha, epochs=epochs)
    np.testing.assert_allclose(curve, GOLDEN[f"ls_schedule_alpha_{array}"], rtol=0, atol=1e-15)


def test_reference_scaled_is_the_same_curve_at_100_epochs_and_fits_any_length():
    scaled = AlphaSchedule(kind="reference", scaled=True)
    assert alpha_curve(scaled, alpha=-0.05, epochs=100) == alpha_curve(
        AlphaSchedule(kind="reference"), alpha=-0.05, epochs=100
    )
    assert alpha_curve(scaled, alpha=-0.8, epochs=8) == pytest.approx([0, 0, 0, 0, -0.2, -0.4, -0.8, -0.8])


def test_reference_with_the_official_epochs_never_smooths_a_short_training():
    schedule = AlphaSchedule(kind="reference")
    assert alpha_curve(schedule, alpha=-0.05, epochs=50) == [0.0] * 50
    with pytest.raises(InputError, match="only 50 epochs; set scaled to true"):
        validate_schedule(schedule, epochs=50)
    validate_schedule(schedule, epochs=51)
    validate_schedule(AlphaSchedule(kind="reference", scaled=True), epochs=2)


@pytest.mark.parametrize(
    ("schedule", "expected"),
    [
        (AlphaSchedule(), [1, 1, 1, 1]),
        (AlphaSchedule(kind="linear"), [0.25, 0.5, 0.75, 1]),
        (AlphaSchedule(kind="linear", start=0.5), [0, 0, 0.5, 1]),
        (AlphaSchedule(kind="cosine"), [(1 - 0.5**0.5) / 2, 0.5, (1 + 0.5**0.5) / 2, 1]),
        (AlphaSchedule(kind="step"), [0, 0, 1, 1]),
        (AlphaSchedule(kind="step", at=0), [1, 1, 1, 1]),
        (AlphaSchedule(kind="ramp"), [0, 0, 1, 1]),
        (AlphaSchedule(kind="ramp", start=0.0, end=1.0), [0.15625, 0.5, 0.84375, 1]),
        (AlphaSchedule(kind="ramp", start=0.25, end=0.25), [0, 1, 1, 1]),
        (AlphaSchedule(kind="linear", start=0.0, end=0.5, back=0.5), [0.5, 1, 0.5, 0]),
        (AlphaSchedule(kind="linear", start=0.0, end=0.25, back=0.75), [1, 1, 1, 0]),
        (AlphaSchedule(kind="cosine", start=0.0, end=0.25, back=0.25), [1, 1 - (1 - 0.5) / 2, 1 - (1 + 0.5) / 2, 0]),
        (AlphaSchedule(kind="ramp", start=0.0, end=0.5, back=0.5), [0.5, 1, 0.5, 0]),
        (AlphaSchedule(kind="step", at=0.25, back=0.75), [0, 1, 1, 0]),
        (AlphaSchedule(kind="step", at=0, back=0.5), [1, 1, 0, 0]),
    ],
)
def test_closed_forms_over_four_epochs(schedule, expected):
    assert alpha_curve(schedule, alpha=-0.4, epochs=4) == pytest.approx([-0.4 * share for share in expected])
    assert alpha_curve(schedule, alpha=0.2, epochs=4) == pytest.approx([0.2 * share for share in expected])


def test_piecewise_interpolates_jumps_and_holds_its_ends():
    points = ((0.25, 0.1), (0.5, 0.0), (0.75, -0.1), (0.75, -0.3))
    curve = alpha_curve(AlphaSchedule(kind="piecewise", points=points), alpha=None, epochs=8)
    assert curve == pytest.approx([0.1, 0.1, 0.05, 0.0, -0.05, -0.1, -0.3, -0.3])


def test_piecewise_refuses_an_alpha_it_would_not_reach():
    schedule = AlphaSchedule(kind="piecewise", points=((0.5, 0.0), (1.0, -0.05)))
    assert alpha_at(schedule, alpha=-0.05, epoch=9, epochs=10) == -0.05
    with pytest.raises(InputError, match=r"ends at its last point -0.05, got -0.1"):
        alpha_at(schedule, alpha=-0.1, epoch=9, epochs=10)


@given(schedule=rising_schedules(), alpha=alphas, epochs=epoch_counts)
def test_a_rise_is_monotone_stays_within_alpha_and_arrives(schedule, alpha, epochs):
    curve = [abs(value) for value in alpha_curve(schedule, alpha=alpha, epochs=epochs)]
    assert curve == sorted(curve)
    assert curve[0] >= 0
    assert curve[-1] == abs(alpha)


@st.composite
def returning_schedules(draw):
    """Any valid schedule that goes back to 0, and the same one without the way back."""
    kind = draw(st.sampled_from(RETURNING))
    if kind == "step":
        at = draw(st.floats(0, 0.9))
        given_ = {"at": at, "back": draw(st.floats(at, 1, exclude_min=True, exclude_max=True))}
    else:
        start = draw(st.floats(0, 0.9))
        end = draw(st.floats(start, 0.95))
        given_ = {"start": start, "end": end, "back": draw(st.floats(end, 1, exclude_max=True))}
    return AlphaSchedule(kind=kind, **given_), AlphaSchedule(kind=kind, **{**given_, "back": None})


@given(schedules=returning_schedules(), alpha=alphas, epochs=epoch_counts)
def test_the_way_back_leaves_the_rise_alone_never_rises_and_ends_at_0(schedules, alpha, epochs):
    there_and_back, there = (alpha_curve(schedule, alpha=alpha, epochs=epochs) for schedule in schedules)
    before = sum((epoch + 1) / epochs <= schedules[0].back for epoch in range(epochs))
    assert there_and_back[:before] == there[:before]
    falling = [abs(value) for value in there_and_back[before:]]
    assert falling == sorted(falling, reverse=True) and falling[-1] == 0


@given(schedule=piecewise_schedules(), epochs=epoch_counts)
def test_piecewise_stays_within_its_points_and_arrives(schedule, epochs):
    curve = alpha_curve(schedule, alpha=None, epochs=epochs)
    values = [alpha for _, alpha in schedule.points]
    assert min(values) <= min(curve) and max(curve) <= max(values)
    assert curve[-1] == values[-1]


@pytest.mark.parametrize(
    ("schedule", "message"),
    [
        (AlphaSchedule(kind="ramp", start=0.8, end=0.2), "ends before it starts, start 0.8, end 0.2"),
        (AlphaSchedule(kind="cosine", start=1.0), "begins at 1, after the last epoch"),
        (AlphaSchedule(kind="step", start=0.5), "step: does not read 'start'; it reads at, back"),
        (AlphaSchedule(kind="constant", back=0.5), "constant: does not read 'back'"),
        (AlphaSchedule(kind="ramp", back=0.7), r"back: expected at least end \(0.75\), got 0.7"),
        (AlphaSchedule(kind="step", at=0.5, back=0.5), r"back: expected above at \(0.5\), got 0.5"),
        (AlphaSchedule(kind="linear", end=0.5, back=1), "goes back at 1, after the last epoch"),
        (AlphaSchedule(kind="piecewise"), r"expected a list of \(fraction, alpha\) pairs, got None"),
        (AlphaSchedule(kind="piecewise", points=((0.5, 0.0), (0.2, 0.1))), "rising fractions, got 0.5, 0.2"),
        (AlphaSchedule(kind="piecewise", points=((0.5, 2.0),)), "points: alpha: expected a finite number"),
        (AlphaSchedule(kind="piecewise", points=((1, 0.0), (1, 0.1))), "at most 1 at fraction 1, got 2"),
        (AlphaSchedule(kind="piecewise", points=((0.5, 0.0), (0.5, 0.1), (0.5, 0.2))), "at most 2 at"),
    ],
)
def test_wrong_schedules_are_refused_in_one_line(schedule, message):
    with pytest.raises(InputError, match=message) as refusal:
        validate_schedule(schedule)
    assert "\n" not in str(refusal.value)
    with pytest.raises(InputError, match=message):
        alpha_at(schedule, alpha=0.0, epoch=0, epochs=1)
