"""Figures as files: PDF for a paper beside SVG and PNG."""

import zlib

import pytest

from smoothsweep.orchestrator.page.drawing.canvas import Canvas


def canvas(title="A figure"):
    made = Canvas(200, 100, title)
    axes = made.axes(20, 10, 190, 90)
    axes.plot([0, 1], [0, 1])
    axes.set_xlabel("accuracy \N{MINUS SIGN}0.8")
    return made


@pytest.mark.parametrize(
    ("name", "begin"), [("a.pdf", b"%PDF-"), ("a.svg", b"<?xml"), ("a.png", b"\x89PNG"), ("a.b.pdf", b"%PDF-")]
)
def test_a_file_is_what_its_name_says_and_the_same_bytes_again(name, begin):
    content = canvas().file(name)
    assert content.startswith(begin) and canvas().file(name) == content


def test_a_pdf_has_letters_and_says_neither_when_nor_by_whom():
    content = canvas("A \x1btitle").pdf()
    assert b"CreationDate" not in content and b"Producer" not in content and b"Creator" not in content
    assert b"/Type0" in content and b"/Image" not in content.replace(b"/ImageB", b"").replace(b"/ImageC", b"").replace(
        b"/ImageI", b""
    ), "letters of a font, and no picture"
    start = content.index(b"stream\n") + 7
    assert b" Tf" in zlib.decompress(content[start : content.index(b"endstream", start)]), "text is text"
