"""Whatever a template is given is escaped, and nothing in it moves what stands beside it."""

from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jinja2 import UndefinedError

from smoothsweep.core.text import escape_controls
from smoothsweep.orchestrator.page.figures.canvas import Canvas
from smoothsweep.orchestrator.page.render import environment, fill

PARAGRAPH = environment().from_string('<p title="{{ value }}">{{ value }}</p>')


def test_a_name_that_nobody_set_is_an_error():
    with pytest.raises(UndefinedError):
        fill(environment().from_string("{{ nobody }}"))


class Reader(HTMLParser):
    tags, data = 0, ""

    def handle_starttag(self, tag, attrs):
        self.tags += 1

    def handle_data(self, data):
        self.data += data


@given(st.text())
def test_a_parser_reads_back_any_text_as_text_only(value):
    reader = Reader()
    made = fill(PARAGRAPH, value=value)
    reader.feed(made)
    reader.close()
    assert reader.tags == 1
    made.encode("utf-8")  # no lone surrogate is left to stop the file from being written
    assert set(reader.data) <= set(escape_controls(value)) | {"?"}


@pytest.mark.parametrize("words", ["a <b> & $x$", "\x1b[2J\u202e\x00", "\ud800", "fill: #aabbcc"])
def test_a_drawing_holds_any_words(words):
    canvas = Canvas(200, 100, words)
    axes = canvas.axes((0, 0, 200, 100))
    (mark,) = axes.plot([1], [1], "o")
    canvas.describe(mark, words, recipe=words, link="#row-1")
    drawn = canvas.svg()
    assert escape_controls(drawn) == drawn and "<b>" not in drawn
    assert drawn == canvas.svg() and b"<script" not in canvas.file("a.svg")
