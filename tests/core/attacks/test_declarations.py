"""What every attack says of itself before it is run: what it must be given, and what it refuses by itself."""

import ast
import dataclasses
from pathlib import Path
from typing import Literal, get_args, get_origin, get_type_hints

import pytest

import smoothsweep.core.attacks
from smoothsweep.core.attacks.registry import ATTACKS, PARTS, make_attack
from smoothsweep.core.attacks.shared.base import ACCESS_LEVELS
from smoothsweep.core.errors import InputError
from tests.core.attacks.examples import example, needed

SHARED_STREAMS = {
    "gan_training.py": ["teacher", "gan weights", "gan", "gan order"],
    "distillation.py": [
        "distil",
        "distil order",
        "student",
        "surrogate",
        "surrogate",
        "surrogate order",
        "surrogate view",
    ],
    "lowres.py": ["restart"],
    "lowres_search.py": ["public features"],
}
"""Module that several attacks share -> the names of its random streams, which every number that it draws follows from.
Those of one attack stand in STREAMS of its example."""
DECLARED = {(name, form): row for name in ATTACKS for form, row in example(name).DECLARED.items()}


def made(kind, form="", **more):
    settings = DECLARED[kind, form][0] if (kind, form) in DECLARED else {}
    return make_attack(kind, **needed(kind), **settings, **more)


def test_every_attack_is_declared_in_each_of_its_forms():
    assert {kind for kind, _ in DECLARED} == set(ATTACKS)
    assert all(row[0].get("form", form) == form for (_, form), row in DECLARED.items())
    forms = {(kind, form) for kind, attack in ATTACKS.items() for form in get_args(get_type_hints(attack).get("form"))}
    assert forms == {(kind, form) for kind, form in DECLARED if "form" in DECLARED[kind, form][0]}


@pytest.mark.parametrize(("kind", "form"), DECLARED)
def test_an_attack_has_the_parts_of_its_form_and_reads_no_others(kind, form):
    attack, (settings, parts, decoder, at_once) = made(kind, form), DECLARED[kind, form]
    assert tuple(part.name for part in attack.parts) == parts and attack.decoder == decoder
    reads = [name for name in attack.needs if name in PARTS]
    assert set(reads) <= set(parts) and (decoder == "prior" or decoder in reads)
    for place, part in enumerate(attack.parts):
        assert not {*part.needs} & {*parts[place:]}, "it is made before it is read"
    assert (attack.class_batch("paper"), attack.class_batch("clean")) == (at_once, 1)
    assert "form" not in settings or attack.variant == form
    learners = [getattr(attack, name) for name in ("students", "surrogates") if name in parts]
    assert attack.pretrained == tuple(name for one in learners if one.pretrained for name in one.architectures)


@pytest.mark.parametrize(("kind", "form"), DECLARED)
def test_public_images_are_asked_for_by_attacks_that_learn_from_them_alone(kind, form):
    attack = made(kind, form)
    tried = {"image_size": 64, "prior_kind": "stylegan2"}
    attack.check(has_public=True, **tried)
    if any("public" in part.needs for part in attack.parts):
        with pytest.raises(InputError, match=r"^public: expected the images that this attack learns from, got none$"):
            attack.check(has_public=False, **tried)
    else:
        attack.check(has_public=False, **tried)


def choices_of(settings):
    """(field, its choices) of a dataclass of settings."""
    hints = get_type_hints(type(settings))
    return [
        (one.name, get_args(hints[one.name]))
        for one in dataclasses.fields(settings)
        if get_origin(hints[one.name]) is Literal
    ]


@pytest.mark.parametrize("kind", ATTACKS)
def test_a_class_refuses_what_is_no_choice_as_a_file_does(kind):
    """Where somebody makes the dataclass itself."""
    attack = made(kind)
    held = {"": attack, **{f"{name}.": getattr(attack, name) for name in ("gan",) if hasattr(attack, name)}}
    for place, settings in held.items():
        for field, choices in choices_of(settings):
            with pytest.raises(InputError) as refusal:
                dataclasses.replace(settings, **{field: "nonsense"})
            assert str(refusal.value) == f"attack.{place}{field}: expected one of {', '.join(choices)}, got 'nonsense'"


def test_parts_are_those_that_some_attack_has_and_their_tables_are_whole():
    used = {part.name for kind, form in DECLARED for part in made(kind, form).parts}
    assert used == set(PARTS)
    for kind in PARTS.values():
        assert callable(kind.function()) and kind.access in ACCESS_LEVELS
        assert type(kind.version) is int and kind.version >= 1


def test_names_of_random_streams_are_part_of_the_numbers():
    """Another name draws other numbers: who changes one raises the version of what draws, then the example."""
    found, wanted = {}, dict(SHARED_STREAMS)
    for name in ATTACKS:
        own = getattr(example(name), "STREAMS", {})
        assert not wanted.keys() & own.keys()
        wanted |= own
    for path in sorted(Path(smoothsweep.core.attacks.__file__).parent.rglob("*.py")):
        names = [
            argument.value
            for call in ast.walk(ast.parse(path.read_text()))
            if isinstance(call, ast.Call) and ast.unparse(call.func) in ("derive_seed", "generator")
            for argument in call.args
            if isinstance(argument, ast.Constant) and isinstance(argument.value, str)
        ]
        if names:
            found[path.relative_to(Path(smoothsweep.core.attacks.__file__).parent).as_posix()] = names
    assert {name: sorted(names) for name, names in found.items()} == {
        name: sorted(streams) for name, streams in wanted.items()
    }


def test_a_stated_rate_has_a_source_and_follows_the_settings():
    stated = [one for one in (made(kind).stated_work for kind in ATTACKS) if one is not None]
    assert stated and all(one.rate.source and one.hours > 0 for one in stated)
    few, many = (made("ppa", candidates=count, pool={"size": 400}).stated_work for count in (50, 200))
    assert (many.latents, many.hours) == (200, pytest.approx(4 * few.hours))
