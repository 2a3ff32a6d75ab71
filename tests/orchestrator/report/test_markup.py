"""Whatever is not markup already is escaped."""

from html.parser import HTMLParser

from hypothesis import given
from hypothesis import strategies as st

from core.words import upright
from orchestrator.page.markup import Markup, join, tag, text


def test_children_and_attributes_are_escaped():
    made = tag("p", "<b>", tag("i", "&"), title='"x" <y>', class_="a", data_x=None, hidden=True)
    assert made == '<p title="&quot;x&quot; &lt;y&gt;" class="a" hidden>&lt;b&gt;<i>&amp;</i></p>'


def test_void_elements_have_no_end():
    assert tag("br") == "<br>"
    assert tag("img", src="a", alt="") == '<img src="a" alt="">'


def test_numbers_are_short():
    assert tag("circle", cx=1.23456, cy=2.0, r=3) == '<circle cx="1.23" cy="2" r="3"></circle>'


def test_join_keeps_markup_and_escapes_the_rest():
    assert join(Markup("<br>"), "<br>", None, 3, separator="|") == "<br>|&lt;br&gt;||3"


@given(st.text())
def test_a_parser_reads_back_any_text_as_text_only(value):
    class Reader(HTMLParser):
        tags, data = 0, ""

        def handle_starttag(self, tag, attrs):
            self.tags += 1

        def handle_data(self, data):
            self.data += data

    reader = Reader()
    reader.feed(tag("p", value, title=value))
    reader.close()
    assert reader.tags == 1
    text(value).encode("utf-8")  # no lone surrogate is left to stop the file from being written
    assert set(reader.data) <= set(upright(value)) | {"?"}
