"""What every defense is held to; label smoothing and its schedules; defenses that change labels; DP-SGD."""

import sys
from dataclasses import MISSING, fields
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from smoothsweep.core.defenses.base import (
    Defense,
    MixedLabels,
    SmoothedLoss,
    hard_labels,
    over_outputs,
    smoothed_cross_entropy,
    smoothed_targets,
)
from smoothsweep.core.defenses.dp_sgd import DpSgd, epsilon, steps_of_epoch
from smoothsweep.core.defenses.labels import PLAIN, recipe_words
from smoothsweep.core.defenses.registry import DEFENSES, make_defense, restore_weights
from smoothsweep.core.defenses.schedules import RETURNING, AlphaSchedule, alpha_at, validate_schedule
from smoothsweep.core.errors import InputError
from smoothsweep.core.models.classifiers import LogitsWithAuxiliary, build_classifier
from smoothsweep.core.models.recipe import TrainingRecipe
from smoothsweep.orchestrator.result.format import ascii_text
from tests.core.defenses.examples import EXAMPLES, example, told

LOGITS = torch.randn(6, 5, generator=torch.Generator().manual_seed(0))
LABELS = torch.tensor([0, 1, 2, 3, 4, 0])


@pytest.mark.parametrize("alpha", [0.1, 0.0, -0.05])
def test_plain_training_is_smoothed_cross_entropy_to_the_bit(alpha, tools):
    model = build_classifier("resnet_small", 4, seed=0, protocol="clean").train()
    images, labels = tools.colours(per_class=2)
    result = tools.take_step(Defense(), model, images, labels, alpha=alpha)
    assert torch.equal(result.loss, smoothed_cross_entropy(result.logits, labels, alpha))
    assert result.facts == {}


@pytest.mark.parametrize("alpha", [0.1, -0.05])
def test_mixed_labels_cost_what_their_soft_target_costs(alpha):
    share = torch.linspace(0, 1, 6)
    mixed = MixedLabels(first=LABELS, second=LABELS.flip(0), share=share)
    criterion = SmoothedLoss(alpha=alpha)
    one, other = criterion.targets(LABELS, 5), criterion.targets(LABELS.flip(0), 5)
    target = share[:, None] * one + (1 - share[:, None]) * other
    expected = -(target * LOGITS.log_softmax(1)).sum(1)
    torch.testing.assert_close(criterion(LOGITS, mixed), expected)
    assert mixed.dominant.tolist() == [0, 4, 3, 3, 4, 0]
    with pytest.raises(ValueError, match="one class per image"):
        hard_labels(mixed)


def test_an_auxiliary_head_is_added_in_full():
    losses, logits = over_outputs(LogitsWithAuxiliary(LOGITS, 2 * LOGITS), lambda z: z.sum(1))
    torch.testing.assert_close(losses, 3 * LOGITS.sum(1))
    assert logits is LOGITS


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
    smoothed_cross_entropy(logits, labels, alpha, reduction="sum").backward()
    expected = logits.detach().softmax(1) - smoothed_targets(labels, classes, alpha).double()
    torch.testing.assert_close(logits.grad, expected, rtol=1e-5, atol=1e-5)


def test_reductions_and_half_precision():
    rows = smoothed_cross_entropy(LOGITS_LABEL_SMOOTHING, LABELS_LABEL_SMOOTHING, -0.1, reduction="none")
    assert rows.shape == (32,)
    torch.testing.assert_close(
        rows.sum(), smoothed_cross_entropy(LOGITS_LABEL_SMOOTHING, LABELS_LABEL_SMOOTHING, -0.1, reduction="sum")
    )
    torch.testing.assert_close(
        rows.mean(), smoothed_cross_entropy(LOGITS_LABEL_SMOOTHING, LABELS_LABEL_SMOOTHING, -0.1)
    )
    half = smoothed_cross_entropy(LOGITS_LABEL_SMOOTHING.bfloat16(), LABELS_LABEL_SMOOTHING, -0.1)
    assert half.dtype == torch.float32
    assert half.item() == pytest.approx(rows.mean().item(), abs=0.02)


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


def test_the_gradient_is_the_sum_of_clipped_ones_over_the_expected_batch(tools):
    """Against a loop over the images; the noise alone is left of a second step whose images say nothing."""
    images, labels = tools.colours(per_class=5)
    clip, noise = 0.5, 1e-9
    defense = DpSgd(noise=noise, clip=clip)
    model = tools.prepared(defense)
    result = tools.take_step(defense, model, images, labels, alpha=-0.05)
    result.loss.backward()
    sums, over = {name: torch.zeros_like(p) for name, p in model.named_parameters()}, 0
    for image, label in zip(images, labels, strict=True):
        loss = SmoothedLoss(alpha=-0.05)(model(image[None]), label[None]).squeeze()
        own = dict(zip(sums, torch.autograd.grad(loss, list(model.parameters())), strict=True))
        length = torch.sqrt(sum(part.square().sum() for part in own.values()))
        over += bool(length > clip)
        for name, part in own.items():
            sums[name] += part * min(1.0, clip / (length.item() + 1e-6))
    for name, parameter in model.named_parameters():
        torch.testing.assert_close(parameter.grad, sums[name] / 16, rtol=1e-3, atol=1e-6)  # expected: `take_step`'s 16
    assert result.facts["clipped"].item() == pytest.approx(over / 20) and over > 0
    plain = SmoothedLoss(alpha=-0.05)(model(images), labels).mean()
    torch.testing.assert_close(result.loss.detach(), plain.detach())


def test_the_noise_has_the_deviation_that_is_accounted_for(tools):
    defense = DpSgd(noise=50.0, clip=0.1)
    model, (images, labels) = tools.prepared(defense), tools.colours(per_class=2)
    tools.take_step(defense, model, images, labels).loss.backward()
    noise = torch.cat([p.grad.flatten() for p in model.parameters()])
    assert noise.std().item() == pytest.approx(50 * 0.1 / 16, rel=0.01) and abs(noise.mean().item()) < 0.01


def test_poisson_batches_take_every_image_with_the_same_probability(tools):
    defense, labels = DpSgd(noise=1.0), torch.zeros(200, dtype=torch.long)
    batches = [batch for epoch in range(200) for batch in defense.sampler(labels, 40, tools.generator(epoch))]
    assert len(batches) == 200 * steps_of_epoch(200, 40) == 1000
    often = torch.bincount(torch.cat(batches), minlength=200) / len(batches)
    assert often.mean().item() == pytest.approx(0.2, abs=0.005) and often.std().item() < 0.02
    sizes = torch.tensor([len(batch) for batch in batches]).double()
    assert sizes.var().item() == pytest.approx(200 * 0.2 * 0.8, rel=0.15)  # binomial: a permutation has none
    with pytest.raises(InputError, match="dp_sgd: expected a batch_size of at most the 200 images, got 201"):
        defense.sampler(labels, 201, tools.generator())


@pytest.mark.parametrize("architecture", ["resnet_small", "vgg_small", "resnet18", "ir50_64"])
def test_opacus_finds_nothing_left_that_mixes_images(architecture):
    from opacus.validators import ModuleValidator

    model = build_classifier(architecture, 4, protocol="clean").train()
    assert ModuleValidator.validate(model)
    DpSgd(noise=1.0).prepare(model, generator=torch.Generator())
    assert ModuleValidator.validate(model) == []


def test_what_it_cannot_be_trained_with_is_refused(monkeypatch):
    with pytest.raises(InputError, match="defense dp_sgd: expected a recipe with precision fp32, got 'bf16'"):
        DpSgd(noise=1.0).adjust_recipe(TrainingRecipe(precision="bf16"))
    monkeypatch.setattr("smoothsweep.core.defenses.dp_sgd.find_spec", lambda name: None)
    with pytest.raises(InputError, match=r"expected opacus beside smoothsweep \(pip install 'smoothsweep\[dp\]'\)"):
        DpSgd(noise=1.0).adjust_recipe(TrainingRecipe())
    assert "opacus" in sys.modules


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
