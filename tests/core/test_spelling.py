"""What is proposed to somebody who mistyped a word."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smoothsweep.core.text import suggestion

WORDS = ("recipe", "resources", "reaudit", "data")


@pytest.mark.parametrize(
    ("got", "meant"),
    [
        ("recpie", "recipe"),
        ("Data", "data"),
        ("resource", "resources"),
        ("weather", None),
        ("", None),
        (3, None),
        (None, None),
        ("data", None),
    ],
)
def test_a_close_word_is_proposed_and_a_far_one_is_not(got, meant):
    assert suggestion(got, WORDS) == (f"; did you mean {meant!r}?" if meant else "")


@given(st.text(max_size=300), st.lists(st.text(max_size=20), max_size=5))
def test_it_is_one_printable_line_whatever_was_typed(got, known):
    said = suggestion(got, known)
    assert said == "" or (said.startswith("; did you mean ") and said.isprintable())
