"""Search spaces: what is drawn lies in them, conditions hold, enumeration and counting agree, mistakes are named."""

from __future__ import annotations

import itertools
import math
from pathlib import Path

import numpy as np
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny import searchable

from smoothsweep.orchestrator.search.setup import Aims, Setup, place
from smoothsweep.sweeps.load import load_sweep
from smoothsweep.sweeps.search import Constraint
from smoothsweep.sweeps.space import DIGITS, Dimension, make_space, same_value
from tests.sweeps.test_refused import SCHEDULE, SEARCH

KIND = Dimension(key="kind", choices=("constant", "ramp", "step"))
START = Dimension(key="start", low=0.0, high=0.8, step=0.05, when={"kind": ("ramp",)})
END = Dimension(key="end", low=0.1, high=1.0, step=0.05, above="start", when={"kind": ("ramp",)})
AT = Dimension(key="at", low=0.0, high=0.9, step=0.1, when={"kind": ("step",)})
SCHEDULES = make_space([END, AT, KIND, START])  # in any order


@st.composite
def spaces(draw):
    """Choices, ranges with and without step, logarithm, whole numbers; conditions; a chain of `above`."""
    low = draw(st.floats(-3, 3))
    width = draw(st.floats(0.01, 5))
    step = draw(st.one_of(st.none(), st.floats(0.001, 1)))
    step = None if step is None or step > width else step
    first = Dimension(key="a", choices=tuple(draw(st.sets(st.integers(0, 9), min_size=2, max_size=5))))
    number = Dimension(key="b", low=low, high=low + width, step=step, when={"a": (first.choices[0],)})
    higher = Dimension(
        key="c",
        low=low - draw(st.floats(0, 2)),
        high=low + width + draw(st.floats(0.5, 3)),
        above="b",
        step=draw(st.sampled_from([None, 0.125])),
    )
    rate = Dimension(key="lr", low=1e-5, high=draw(st.floats(1e-4, 1)), log=True)
    most = draw(st.integers(2, 30))
    whole = Dimension(key="n", low=1, high=most, step=1, integer=True, when={"a": first.choices[:2]})
    named = Dimension(key="d", choices=({"kind": "mid"}, None, "x"), when={"n": (1, 2)})
    return make_space([named, whole, rate, higher, number, first])


@given(space=spaces(), seed=st.integers(0, 2**32 - 1))
@settings(max_examples=200, deadline=None)
def test_what_is_drawn_lies_in_the_space_and_its_conditions_hold(space, seed):
    values = space.sample(np.random.default_rng(seed))
    assert ("b" in values) == (values["a"] == by(space, "a").choices[0])
    assert ("n" in values) == (values["a"] in by(space, "a").choices[:2])
    assert ("d" in values) == (values.get("n") in (1, 2))
    for key, value in values.items():
        dimension = by(space, key)
        if dimension.choices is None:
            assert dimension.low <= value <= dimension.high
            if dimension.step is None and value not in (dimension.low, dimension.high, values.get(dimension.above)):
                assert value == float(f"{value:.{DIGITS}g}")
    assert "b" not in values or values["c"] > values["b"]
    assert "n" not in values or isinstance(values["n"], int)


@given(space=spaces(), seed=st.integers(0, 2**32 - 1))
@settings(max_examples=100, deadline=None)
def test_a_drawn_configuration_is_found_again_by_its_positions(space, seed):
    values = space.sample(np.random.default_rng(seed))
    positions = {key: by(space, key).position(value, values) for key, value in values.items()}
    assert None not in positions.values()
    again = space.choose(lambda dimension: positions[dimension.key])
    for key, value in values.items():
        assert again[key] == (pytest.approx(value, rel=2e-5) if isinstance(value, float) else value)


def test_enumeration_and_count_agree_and_every_configuration_comes_once():
    found = list(SCHEDULES.enumerate())
    pairs = sum(end > start for start in START.values for end in END.values)
    assert len(found) == SCHEDULES.count == 1 + 10 + pairs
    assert len({repr(sorted(values.items())) for values in found}) == len(found)
    drawn = {repr(sorted(SCHEDULES.sample(np.random.default_rng(n)).items())) for n in range(3000)}
    assert drawn <= {repr(sorted(values.items())) for values in found} and len(drawn) > 150


def test_a_range_without_steps_has_no_count():
    space = make_space([Dimension(key="a", low=0.0, high=1.0)])
    assert space.count is None
    with pytest.raises(ValueError, match="a: expected finitely many values"):
        list(space.enumerate())


def test_structured_choices_come_before_what_lies_in_them_and_are_not_shared():
    defenses = ({"kind": "label_smoothing"}, {"kind": "mid"})
    inner = Dimension(key="r.d.beta", low=0.01, high=0.1, step=0.03, when={"r.d": (defenses[1],)})
    space = make_space([inner, Dimension(key="r.d", choices=defenses)])
    assert space.keys == ("r.d", "r.d.beta") and space.count == 1 + 4
    first, *_ = space.enumerate()
    first["r.d"]["kind"] = "changed"
    assert next(iter(space.enumerate()))["r.d"] == {"kind": "label_smoothing"}


def test_true_is_not_one():
    space = make_space([Dimension(key="a", choices=(True, 1)), Dimension(key="b", choices=(0,), when={"a": (True,)})])
    assert [set(values) for values in space.enumerate()] == [{"a", "b"}, {"a"}]


@pytest.mark.parametrize(
    ("dimensions", "message"),
    [
        ([], "expected at least one key"),
        ([Dimension(key="a", choices=(1,), when={"b": (1,)})], "a.when: expected keys of other dimensions"),
        ([Dimension(key="a", choices=(1,), when={"a": (1,)})], "a.when: expected keys of other dimensions"),
        (
            [KIND, Dimension(key="a", choices=(1,), when={"kind": ("rmap",)})],
            r"a.when.kind: expected values of that dimension \(constant, ramp, step\), got rmap",
        ),
        ([KIND, Dimension(key="a", choices=(1,), when={"kind": ()})], "a.when.kind: expected at least one value"),
        (
            [Dimension(key="b", low=0, high=1), Dimension(key="a", choices=(1,), when={"b": (1,)})],
            "a.when.b: expected a dimension of choices or steps",
        ),
        (
            [Dimension(key="a", choices=(1,), when={"b": (1,)}), Dimension(key="b", choices=(1,), when={"a": (1,)})],
            "conditions that do not go in a circle, got a -> b -> a",
        ),
        ([Dimension(key="a", low=0, high=1, above="b")], "a.above: expected the key of another dimension"),
        ([KIND, Dimension(key="a", low=0, high=1, above="kind")], "ranges of numbers on both sides"),
        (
            [Dimension(key="a", low=0, high=1, above="b"), Dimension(key="b", low=0, high=1)],
            "a.above: expected room above b, which reaches 1, got at most 1",
        ),
    ],
)
def test_inconsistent_spaces_are_refused_in_one_line(dimensions, message):
    with pytest.raises(ValueError, match=message) as refusal:
        make_space(dimensions)
    assert "\n" not in str(refusal.value)


def by(space, key):
    return next(dimension for dimension in space.dimensions if dimension.key == key)


def test_places_of_what_is_not_in_the_space():
    setup = Setup(space=SCHEDULES, aims=Aims(objectives={}), identity=str)
    assert place(setup, {"kind": "constant"})["kind"] == 0
    outside = {"kind": "constant", "at": 0.5}, {"kind": "step", "at": 0.55}, {"kind": "ramp", "start": 0.5, "end": 0.5}
    assert [place(setup, values) for values in outside] == [None] * 3
    assert not math.isnan(place(setup, {"kind": "ramp", "start": 0.5, "end": 0.55})["end"])


RANGE = Dimension(key="a", low=0.5, high=2.0)
RATE = Dimension(key="a", low=1e-4, high=1e-2, log=True)
STEPS = Dimension(key="a", low=0.1, high=0.5, step=0.2)
WHOLE = Dimension(key="a", low=2, high=5, step=1, integer=True)
NAMES = Dimension(key="a", choices=("one", None, True, 1, {"k": 1}))
POINT = Dimension(key="a", low=0.3, high=0.3)
HIGHER = Dimension(key="a", low=0.0, high=1.0, above="b")
HIGHER_RATE = Dimension(key="a", low=1e-4, high=1e-2, log=True, above="b")
HIGHER_STEPS = Dimension(key="a", low=0.0, high=1.0, step=0.25, above="b")
NO_NUMBERS = ("one", None, True, False, [0.5], {"k": 1}, math.nan)


@pytest.mark.parametrize("dimension", [RANGE, RATE, STEPS, WHOLE, POINT, HIGHER, HIGHER_RATE, HIGHER_STEPS])
@pytest.mark.parametrize("value", [*NO_NUMBERS, -1, 7, 1e9, -math.inf, math.inf])
def test_what_is_no_number_of_the_range_lies_nowhere(dimension, value):
    assert dimension.position(value, {"b": 0.0}) is None


@pytest.mark.parametrize(
    ("dimension", "value", "expected"),
    [
        (RANGE, 0.5, 0.5),
        (RANGE, 2, 2.0),
        (STEPS, 0.1, 0),
        (STEPS, 0.5, 2),
        (STEPS, 0.4, None),
        (WHOLE, 5, 3),
        (WHOLE, 6, None),
        (NAMES, "one", 0),
        (NAMES, None, 1),
        (NAMES, True, 2),
        (NAMES, 1, 3),
        (NAMES, {"k": 1}, 4),
        (NAMES, False, None),
        (POINT, 0.3, 0),
    ],
)
def test_a_position_is_an_index_or_the_number_itself(dimension, value, expected):
    found = dimension.position(value, {})
    assert found == expected and type(found) is type(expected)


@pytest.mark.parametrize(
    ("dimension", "floor", "value", "expected"),
    [
        (HIGHER, 0.0, 0.25, 0.25),
        (HIGHER, 0.5, 0.75, 0.5),
        (HIGHER, 0.5, 0.5, 0.0),
        (HIGHER, 0.5, 0.49, None),
        (HIGHER, 0.5, 1.01, None),
        (HIGHER, -3, 0.25, 0.25),
        (HIGHER_RATE, 1e-4, 1e-3, 0.5),
        (HIGHER_RATE, 1e-6, 1e-3, 0.5),
        (HIGHER_RATE, 1e-3, 1e-2, 1.0),
        (HIGHER_STEPS, 0.5, 0.75, 0.25),
        (HIGHER_STEPS, 0.5, 1.0, 0.75),
        (HIGHER_STEPS, 0.5, 0.5, None),
        (HIGHER_STEPS, -1, 0.0, 0.1),
    ],
)
def test_above_another_a_position_is_a_share_of_what_that_leaves(dimension, floor, value, expected):
    found = dimension.position(value, {"b": floor})
    assert found == (None if expected is None else pytest.approx(expected))


@pytest.mark.parametrize(
    ("dimension", "share", "expected"),
    [
        (RANGE, 0.5, 1.25),
        (RATE, 0.5, 1e-3),
        (RATE, 0.25, 10**-3.5),
        (STEPS, 0.0, 0),
        (STEPS, 0.34, 1),
        (WHOLE, 0.999999, 3),
        (NAMES, 0.2, 1),
        (POINT, 0.7, 0),
        (HIGHER, 0.3, 0.3),
        (HIGHER_STEPS, 0.3, 0.3),
    ],
)
def test_a_share_of_a_dimension_is_even_over_its_values_or_its_logarithm(dimension, share, expected):
    found = dimension.spread(share)
    assert found == pytest.approx(expected) and isinstance(found, type(expected))


@pytest.mark.parametrize(
    ("dimension", "position", "floor", "expected"),
    [
        (RANGE, 1.2345678, None, 1.23457),
        (RATE, 0.00123456789, None, 0.00123457),
        (RANGE, 0.1, None, 0.5),
        (RANGE, 9.0, None, 2.0),
        (STEPS, 1, None, 0.3),
        (WHOLE, 3, None, 5),
        (POINT, 0, None, 0.3),
        (HIGHER, 0.5, 0.5, 0.75),
        (HIGHER, 0.0, 0.5, 1.0),
        (HIGHER_RATE, 0.5, 1e-4, 1e-3),
        (HIGHER_STEPS, 0.0, 0.5, 0.75),
        (HIGHER_STEPS, 1.0, 0.5, 1.0),
    ],
)
def test_a_value_has_six_digits_and_stays_within_its_ends(dimension, position, floor, expected):
    found = dimension.at(position, {} if floor is None else {"b": floor})
    assert found == expected and type(found) is type(expected)


def test_a_dimension_exists_where_all_its_conditions_hold():
    both = Dimension(key="a", choices=(1,), when={"kind": ("ramp", "step"), "on": (True,)})
    assert both.exists({"kind": "step", "on": True})
    for values in ({"kind": "step"}, {"kind": "other", "on": True}, {"kind": "step", "on": 1}, {}):
        assert not both.exists(values)
    assert same_value(1, 1.0) and not same_value(1, True) and not same_value("1", 1)


ALPHA = "recipe.defense.alpha"


def sweep(folder: Path, search=None, **changes) -> Path:
    given = searchable("s", {**SEARCH, **(search or {})}, **changes)
    path = folder / "s.yaml"
    path.write_text("# What it finds.\n" + yaml.safe_dump(given, sort_keys=False))
    return path


def test_a_search_without_a_strategy_is_noise_aware(tmp_path):
    path = sweep(tmp_path)
    path.write_text(path.read_text().replace("  strategy: optuna\n", ""))
    search = load_sweep(path).sweep.search
    assert (search.strategy, search.seeds_at_first, search.lag) == ("noise_aware", 1, 4)


def test_every_draw_of_a_consistent_space_is_a_valid_recipe(tmp_path):
    loaded = load_sweep(sweep(tmp_path))
    make = loaded.make
    for number in range(60):
        values = loaded.sweep.search.dimensions.sample(np.random.default_rng(number))
        cell = make(values)
        assert cell.settings.recipe.defense.alpha == values[ALPHA]
        assert cell.axes["start"] == values.get(f"{SCHEDULE}start") and cell.settings.search is None
        assert list(cell.axes) == ["alpha", "kind", "start", "end"]


def test_structured_defenses_and_their_own_parameters(tmp_path):
    defenses = [{"kind": "label_smoothing"}, {"kind": "mid"}]
    given = {
        "recipe.defense": {"choices": defenses},
        "recipe.defense.beta": {"low": 1e-3, "high": 0.1, "log": True, "when": {"recipe.defense": [defenses[1]]}},
        ALPHA: {"choices": [-0.2, 0.0], "when": {"recipe.defense": [defenses[0]]}},
    }
    loaded = load_sweep(sweep(tmp_path, {"space": given}))
    make, seen = loaded.make, set()
    for number in range(20):
        values = loaded.sweep.search.dimensions.sample(np.random.default_rng(number))
        defense = make(values).settings.recipe.defense
        seen.add(defense.kind)
        assert (defense.parameters.get("beta"), defense.final_alpha) == (
            values.get("recipe.defense.beta"),
            values.get(ALPHA, 0.0),
        )
    assert seen == {"label_smoothing", "mid"}


def test_a_constraint_says_by_how_much_it_is_missed():
    assert Constraint(at_least=0.9).violation(0.8) == pytest.approx(0.1)
    assert Constraint(at_least=0.1, at_most=0.5).violation(0.7) == pytest.approx(0.2)
    assert Constraint(at_most=0.5).violation(0.4) < 0


def test_a_recipe_is_the_baseline_where_nothing_but_nulls_is_beside_it(tmp_path):
    keys = {ALPHA: [-0.2, 0.0], "recipe.stop_at_test_acc": [None, 0.9]}
    keys["recipe.defense.schedule"] = [None, {"kind": "linear"}]
    search = {"strategy": "grid", "space": {key: {"choices": values} for key, values in keys.items()}}
    raw = searchable("nulls", {**search, "objectives": {"embedder_acc1": "min"}}, baseline={ALPHA: 0.0})
    (tmp_path / "nulls.yaml").write_text(yaml.safe_dump(raw))
    make = load_sweep(tmp_path / "nulls.yaml").make
    for values in itertools.product(*([..., *of_key] for of_key in keys.values())):
        recipe = {key: value for key, value in zip(keys, values, strict=True) if value is not ...}
        stated = {key: value for key, value in recipe.items() if value is not None}
        assert make(recipe).is_baseline == (stated == {ALPHA: 0.0}), recipe
