"""Every attack of the table: which settings it refuses, in which words, and where its bounds are."""

import dataclasses
import subprocess
import sys
from typing import Annotated, ClassVar, get_args, get_origin, get_type_hints

import pytest

from smoothsweep.core.attacks.registry import ATTACKS, make_attack
from smoothsweep.core.errors import InputError
from tests.attack_examples import EXAMPLES, POOL
from tests.core.attacks.examples import example
from tests.nonsense import beyond, nested_of, nonsense_for

WRONG = [(name, *row) for name in ATTACKS for row in example(name).WRONG] + [
    ("loki", {}, "attack.kind: expected one of ppa"),
]

RELATIVE = {
    "candidates": ([161], [4, 40]),
    "finalists": ([9], [4, 8]),
    "lr_milestones": ([(0,), (20,), (-1,), (2, 20)], [(1, 19), ()]),
    "crop_scale": ([(0, 1), (0.5, 1.1), (0.9, 0.5), (0.5,)], [(0.5, 1), (1, 1)]),
    "crop_ratio": ([(0, 1), (1.2, 1), (1,)], [(0.5, 2), (1, 1)]),
    "selection_crop_scale": ([(0, 1), (0.5, 1.1), (0.9, 0.5), (0.5,)], [(0.5, 1), (1, 1)]),
    "selection_crop_ratio": ([(0, 1), (1.2, 1), (1,)], [(0.5, 2), (1, 1)]),
    "average.crop_scale": ([(0, 1), (0.5, 1.1), (0.9, 0.5)], [(0.5, 1), (1, 1)]),
    "average.crop_ratio": ([(0, 1), (1.2, 1)], [(0.5, 2), (1, 1)]),
    "stage_steps": ([(), (3, 0)], [(1,), (1,) * 8]),
    "radii": ([(), (1.0,), (1.0, 0.0), (1.0,) * 3], [(1e-9, 1e9), None]),
    "episodes": ([32], [33]),
    "at_once": ([32], [1]),
    "minibatch": ([], [16, 479]),
    "max_queries": ([35], [36]),
    "feature_weight": ([], [0]),  # more is refused by surrogates
}
"""Field whose bounds other fields or a pair set -> what it does not take, up to the bound; what it takes."""


def test_every_attack_has_an_example_and_something_to_refuse():
    assert set(EXAMPLES) == set(ATTACKS) == {name for name, _, _ in WRONG if name in ATTACKS}


@pytest.mark.parametrize(("name", "parameters", "message"), WRONG)
def test_wrong_parameters_are_refused_in_one_line(name, parameters, message):
    with pytest.raises(InputError, match=message) as refusal:
        make_attack(name, **parameters)
    assert "\n" not in str(refusal.value)


def changed(name, key, value):
    """The example with one field changed, which may be one of its nested settings."""
    holder, _, inner = key.rpartition(".")
    example = EXAMPLES[name]
    return {**example, **({holder: {**example.get(holder, {}), inner: value}} if holder else {key: value})}


@pytest.mark.parametrize("name", list(ATTACKS))
def test_every_field_refuses_a_value_of_another_type_under_its_own_name(name):
    wrong = nonsense_for(ATTACKS[name])
    for holder, settings in nested_of(ATTACKS[name]).items():
        wrong += [(f"{holder}.{field}", value) for field, value in nonsense_for(settings)]
    for field, value in wrong:
        refused(name, field, value)


def refused(name, key, value):
    with pytest.raises(InputError) as refusal:
        make_attack(name, **changed(name, key, value))
    assert str(refusal.value).startswith(f"attack.{key}: expected "), (key, value, str(refusal.value))
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize("name", list(ATTACKS))
def test_every_number_has_bounds_and_refuses_what_is_beyond_them(name):
    tried = 0
    for holder, declared in {"": ATTACKS[name], **nested_of(ATTACKS[name])}.items():
        for field, hint in get_type_hints(declared, include_extras=True).items():
            key = f"{holder}.{field}" if holder else field
            if get_origin(hint) is not ClassVar and field not in {of.rpartition(".")[2] for of in RELATIVE}:
                assert beyond(hint) or not without_bounds(hint), key
                for value in beyond(hint):
                    refused(name, key, value)
                    tried += 1
    assert tried > 3


def without_bounds(hint):
    """Whether a number of this type has none."""
    inside = () if get_origin(hint) is Annotated else get_args(hint)
    return hint in (int, float) or any(map(without_bounds, inside))


@pytest.mark.parametrize(
    ("name", "key"),
    [
        (name, key)
        for name, attack in ATTACKS.items()
        for key in RELATIVE
        if key.split(".")[0] in {field.name for field in dataclasses.fields(attack)}
    ],
)
def test_bounds_that_other_fields_set_are_where_they_are_said_to_be(name, key):
    beyond_it, taken = RELATIVE[key]
    for value in beyond_it:
        refused(name, key, value)
    for value in taken:
        make_attack(name, **changed(name, key, value))


@pytest.mark.parametrize("name", [name for name in ATTACKS if "pool" in EXAMPLES[name]])
def test_a_pool_is_refused_that_holds_fewer_than_are_taken_from_it(name):
    attack = make_attack(name, **EXAMPLES[name])
    taken = "candidates" if hasattr(attack, "candidates") else "selected"
    few = {**EXAMPLES[name], "pool": {**EXAMPLES[name]["pool"], "size": 2}}
    with pytest.raises(InputError, match=rf"attack\.{taken}: expected at most .*2.*, got 3"):
        make_attack(name, **{**few, taken: 3})


def test_a_bound_that_another_field_sets_is_the_last_value_taken():
    few = {**EXAMPLES["ppa"], "candidates": 4, "selected": 4, "pool": {**POOL, "size": 4}}
    make_attack("ppa", **few)
    with pytest.raises(InputError, match=r"^attack\.selected: expected at most candidates \(4\), got 5"):
        make_attack("ppa", **{**few, "selected": 5})
    with pytest.raises(InputError, match=r"^attack\.candidates: expected at most pool.size \(3\), got 4"):
        make_attack("ppa", **{**few, "pool": {**POOL, "size": 3}})
    still = {"selection_crop_scale": (1, 1), "selection_crop_ratio": (1, 1), "selection_hflip": 0}
    make_attack("ppa", **{**EXAMPLES["ppa"], **still, "selection_repeats": 1})
    for wrong in ({"selection_repeats": 2}, {"selection_repeats": 1, "selection_view_size": 16}):
        with pytest.raises(InputError, match=r"^attack\.selection_repeats, selection_view_size: expected 1 and none"):
            make_attack("ppa", **{**EXAMPLES["ppa"], **still, **wrong})
    for moving in ({"selection_crop_scale": (0.9, 1)}, {"selection_crop_ratio": (1, 2)}, {"selection_hflip": 0.5}):
        make_attack("ppa", **{**EXAMPLES["ppa"], **still, **moving, "selection_repeats": 2})


def test_the_tables_are_read_without_torch():
    code = "import sys; import smoothsweep.core.attacks.registry; print('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "False"
