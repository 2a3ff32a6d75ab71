"""A position in borrowed bytes, and the names of values in a refusal: by hand."""

import pytest

from smoothsweep.core.pickles.cursor import Cursor, Refused, describe


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (None, "None"),
        (True, "True"),
        (-3, "-3"),
        (0.5, "0.5"),
        ("a\n\x1b[31m\u00e9", r"'a\n\x1b[31m\xe9'"),
        ("x" * 60, "'" + "x" * 60 + "'"),
        ("x" * 30 + "y" * 31, "'" + "x" * 30 + "y" * 30 + "...'"),
        ({"a": 1, "b": 2}, "a dict of 2"),
        ([1, 2, 3], "a list of 3"),
        ((), "a tuple of 0"),
        ({"a"}, "a set of 1"),
        (memoryview(b"secret"), "a memoryview"),
    ],
)
def test_a_value_is_named_shortly_and_printably(value, words):
    assert describe(value) == words


def test_a_cursor_counts_from_where_its_view_begins_and_gives_no_byte_twice():
    content = bytearray(b"\x01\x02\x03\x04line\nrest")
    cursor = Cursor(memoryview(content), offset=100)
    assert (cursor.here, cursor.left) == (100, 13)
    assert cursor.unsigned(1) == 1 and cursor.unsigned(2) == 0x0302 and (cursor.here, cursor.left) == (103, 10)
    taken = cursor.take(1)
    content[3] = 9
    assert bytes(taken) == b"\x09", "not copied"
    for longest in (3, 0):
        with pytest.raises(Refused, match=f"a line of at most {longest} bytes"):
            cursor.line(longest)
    assert cursor.line(4) == "line" and cursor.here == 109
    with pytest.raises(Refused, match="expected a line of at most 200 bytes"):
        cursor.line(200)
    with pytest.raises(Refused, match="5 bytes are claimed and 4 remain"):
        cursor.take(5)
    assert bytes(cursor.take(4)) == b"rest" and cursor.left == 0 and bytes(cursor.take(0)) == b""
    assert Cursor(memoryview(b"a")).here == 0


def test_a_line_is_ascii():
    with pytest.raises(Refused, match="expected ASCII text"):
        Cursor(memoryview(b"\xc3\xa9\n")).line(9)
