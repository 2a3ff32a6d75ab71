"""The two pages for whoever decides: nothing falls off them, and the first one has both leaks."""

from dataclasses import replace

import pytest

from smoothsweep.orchestrator.page.audit import audit_pdf
from smoothsweep.orchestrator.page.drawing.paper import FOOT, Paper
from smoothsweep.orchestrator.reading.audit.sentences import audit_sentences
from tests.orchestrator.reading.audit.test_members import audit, one_found  # noqa: F401

GIVEN = {"name": "m", "facts": {"data": "people"}, "anonymous": False, "portraits": []}


@pytest.fixture
def written(monkeypatch):
    """(page, words, where it ends in mm, size of its type) of every paragraph, of the pages that are kept."""
    found = []

    def multi_cell(paper, w, h, text, **given):
        if paper.page_no() == 1 and not paper.written:
            found.clear()
        paper.written = True
        result = original(paper, w, h, text, **given)
        found.append((paper.page_no(), text, paper.get_y(), paper.font_size_pt))
        return result

    original = Paper.multi_cell
    monkeypatch.setattr(Paper, "written", False, raising=False)
    monkeypatch.setattr(Paper, "multi_cell", multi_cell)
    return found


def test_membership_is_on_the_first_page_and_the_rest_of_it_on_the_second(audit, written):  # noqa: F811
    told = replace(audit, membership=one_found())
    lines = audit_sentences(told)["membership"]
    audit_pdf(told, **GIVEN)
    pages = {text: page for page, text, *_ in written}
    assert len(lines) > 1 and pages[lines[0]] == 1 and pages[" ".join(lines[1:])] == 2


@pytest.mark.parametrize("many", [1, 6, 12])
def test_pages_with_more_on_them_have_smaller_type_and_lose_nothing(audit, written, many):  # noqa: F811
    """Whatever is written ends above the foot of its page; the foot itself keeps its size."""
    long = replace(audit, membership=one_found(), reached=audit.reached * many)
    assert audit_pdf(long, **GIVEN).count(b"/Type /Page\n") == 2
    feet = [entry for entry in written if ", page " in entry[1]]
    assert [size for *_, size in feet] == [7.5, 7.5]
    rest = [entry for entry in written if entry not in feet]
    assert max(end for _, _, end, _ in rest) <= 297 - FOOT + 0.01
    title = next(size for _, text, _, size in rest if text.startswith("How much"))
    assert (title == 18) == (many < 12)
