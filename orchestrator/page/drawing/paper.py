"""A4 pages of text and tables, in a PDF."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from fpdf import FPDF
from matplotlib import get_data_path

from smoothsweep.orchestrator.page.drawing.sheets import cut

GAP, LEAST_CUT, FOOT = 2.5, 25.0, 14.0
"""In mm: beside the text of a cell; the width of a column whose text is cut; the height of a page's foot."""

FOOT_TYPE = 7.5


class Paper(FPDF):
    """A4 with a font that knows other scripts than Latin, and a line at the foot.

    Attributes:
        pages_in_all: How many there will be, for that line.
        scale: Factor on the size of all type, at most 1.
        fits: Whether everything that was written ends above the foot of its page.
    """

    def __init__(self, title: str, *, pages: int, scale: float = 1.0) -> None:
        super().__init__(format="A4")
        self.pages_in_all, self.scale, self.fits = pages, scale, True
        fonts = Path(get_data_path()) / "fonts" / "ttf"
        self.add_font("sans", fname=str(fonts / "DejaVuSans.ttf"))
        self.add_font("sans", style="B", fname=str(fonts / "DejaVuSans-Bold.ttf"))
        self.set_margin(18)
        self.set_auto_page_break(False)
        self.set_title(title)
        self.set_creator("smoothsweep")

    def footer(self) -> None:
        self.set_y(-FOOT)
        self.write_line(
            f"{self.title}, page {self.page_no()} of {self.pages_in_all}",
            size=FOOT_TYPE / self.scale,
            grey=True,
            foot=True,
        )

    def write_line(
        self, words: str, *, size: float = 10, bold: bool = False, grey: bool = False, foot: bool = False
    ) -> None:
        """A paragraph over the whole width; foot: below the end of the page."""
        size *= self.scale
        self.set_font("sans", "B" if bold else "", size)
        self.set_text_color(110 if grey else 25)
        self.multi_cell(0, size * 0.5, words, new_x="LMARGIN", new_y="NEXT", align="L")
        self.fits &= foot or self.get_y() <= self.h - FOOT
        self.ln(size * 0.14)

    def write_rows(self, head: Sequence[str], rows: Sequence[Sequence[str]], *, cuts: str, size: float = 8) -> None:
        """A table of one line for each row. cuts: the column that is cut where the page is too narrow; numbers with
        their intervals never are, whose fonts shrink before."""
        size *= self.scale
        widths = self.widths(head, rows, cuts=cuts, size=size)
        while sum(widths) > self.epw + 0.01:
            size -= 0.25
            widths = self.widths(head, rows, cuts=cuts, size=size)
        self.set_text_color(25)
        for at, row in enumerate((head, *rows)):
            self.set_font("sans", "B" if at == 0 else "", size)
            for cell, width in zip(row, widths, strict=True):
                self.cell(width, 5 * self.scale, cut(cell, width - GAP, self.get_string_width), border="B")
            self.ln()
        self.fits &= self.get_y() <= self.h - FOOT
        self.ln(3 * self.scale)

    def widths(self, head: Sequence[str], rows: Sequence[Sequence[str]], *, cuts: str, size: float) -> list[float]:
        """Of the columns in mm, as wide as what is in them. The one that is cut gets what is left, or `LEAST_CUT`;
        the sum may be more than the page has."""
        widths = [0.0] * len(head)
        for at, row in enumerate((head, *rows)):
            self.set_font("sans", "B" if at == 0 else "", size)
            widths = [max(known, self.get_string_width(cell) + GAP) for known, cell in zip(widths, row, strict=True)]
        place = head.index(cuts)
        widths[place] = max(LEAST_CUT, self.epw - sum(widths) + widths[place])
        return widths
