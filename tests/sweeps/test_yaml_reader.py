"""What YAML means here: the 1.2 core schema, everything said once, and nothing that grows without bound."""

import math

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from smoothsweep.core.errors import InputError
from smoothsweep.sweeps.load import LARGEST, MAX_BYTES, MAX_DEPTH, as_yaml, read_yaml


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1e-3", 0.001),
        (".5", 0.5),
        ("5.", 5.0),
        ("-0.0", 0.0),
        ("-7", -7),
        ("0o17", 15),
        ("0x1F", 31),
        ("017", 17),
        ("1:30", "1:30"),
        ("1_000", "1_000"),
        ("2024-01-01", "2024-01-01"),
        ("no", "no"),
        ("y", "y"),
        ("True", True),
        ("true", True),
        ("false", False),
        ("~", None),
        ("", None),
        ("NULL", None),
        ("'1'", "1"),
        ('"no"', "no"),
        ("nan", "nan"),
        ("-.inf", -math.inf),
        ("[1, [2]]", [1, [2]]),
        ("{a: {b: 1}}", {"a": {"b": 1}}),
        (str(LARGEST), LARGEST),
        ("'<<'", "<<"),
    ],
)
def test_scalars_are_what_people_mean(text, value):
    read = read_yaml(text, "here")
    assert read == value and type(read) is type(value)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a: 1\nb: 2\na: 3", "here: line 3: expected every key once, got 'a' twice"),
        ("{x: {a: 1, a: 2}}", "got 'a' twice"),
        ("{<<: {a: 1}, <<: {b: 1}}", "got '<<' twice"),
        ("1: x", "expected a key of text, got 1"),
        ("? [a]\n: x", "expected a key of plain text"),
        ("!!python/object:os.system x", "expected a value without a tag"),
        ("!!binary aa", "expected a value without a tag"),
        ("&a [*a]", "expected an anchor before its alias, got 'a'"),
        ("--- 1\n--- 2", "expected one document"),
        (str(LARGEST + 1), "expected a whole number of at most"),
        ("-" + "9" * 5000, "expected a whole number of at most"),
        ("1e999", "expected a finite number"),
        ("a: [1", "expected YAML, got"),
        ("a: 1\nb: @x\n", "here: line 2: expected YAML, got"),
        ("\ud800", "expected UTF-8 text"),
        ("ab\ud800", "at character 3"),
        ("{<<: 1}", "expected << to name a mapping"),
    ],
)
def test_what_is_refused_names_the_place(text, words):
    with pytest.raises(InputError) as caught:
        read_yaml(text, "here")
    assert str(caught.value).startswith("here:") and words in str(caught.value)


def laughs(levels: int) -> str:
    """A few lines that stand for 9 ** levels values."""
    lines = ["a0: &a0 [lol]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, levels + 1)]
    return "\n".join(lines)


@pytest.mark.parametrize(
    "text",
    [
        laughs(12),
        laughs(12).replace("[lol]", "{k: lol}"),
        "[" * 100_000,
        "{a: " * 10_000,
        "- " * 10_000,
        "&a [" * 500,
        "[" + "1," * 300_000 + "]",
        "a: '" + "x" * 100_000 + "'",
        "x" * (MAX_BYTES + 1),
        "m0: &m0 {k: 1}\n"
        + "\n".join(f"m{n}: &m{n} {{<<: [{', '.join([f'*m{n - 1}'] * 50)}], k{n}: 1}}" for n in range(1, 400)),
    ],
)
def test_bombs_are_refused(text):
    with pytest.raises(InputError, match=r"here: .*expected"):
        read_yaml(text, "here")


def test_an_alias_is_a_copy():
    read = read_yaml("a: &x {b: [1]}\nc: *x", "here")
    read["c"]["b"].append(2)
    assert read["a"] == {"b": [1]}


scalars = st.none() | st.booleans() | st.integers(-LARGEST, LARGEST) | st.text(max_size=20)
scalars |= st.floats(allow_nan=False, allow_infinity=False).map(lambda number: number + 0.0)
trees = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=MAX_DEPTH // 2,
)


@settings(max_examples=60, deadline=None)
@given(trees)
@example({"\x85": "\u2028\u2029\ufeff"})
def test_what_is_written_is_read_back(tree):
    assert read_yaml(as_yaml(tree), "here") == tree
