"""Search spaces: what is drawn lies in them, conditions hold, enumeration and counting agree, mistakes are named."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from smoothsweep.sweeps.load import load_sweep
from smoothsweep.sweeps.search import Constraint
from smoothsweep.sweeps.space import DIGITS, Dimension, make_space
from tests.tiny import searchable

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


def test_structured_choices_come_before_what_lies_in_them_and_are_not_shared():
    defenses = ({"kind": "label_smoothing"}, {"kind": "mid"})
    inner = Dimension(key="r.d.beta", low=0.01, high=0.1, step=0.03, when={"r.d": (defenses[1],)})
    space = make_space([inner, Dimension(key="r.d", choices=defenses)])
    assert space.keys == ("r.d", "r.d.beta") and space.count == 1 + 4
    first, *_ = space.enumerate()
    first["r.d"]["kind"] = "changed"
    assert next(iter(space.enumerate()))["r.d"] == {"kind": "label_smoothing"}


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


ALPHA = "recipe.defense.alpha"


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
