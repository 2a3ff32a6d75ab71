"""The marks and colours by which a plot tells families of defenses apart."""

from smoothsweep.orchestrator.page.drawing.colours import FAMILIES
from smoothsweep.orchestrator.page.figures.accuracy_leak import SHAPES, mark_of


def test_more_families_than_colours_and_marks_still_look_different():
    count = len(FAMILIES) + len(SHAPES)
    looks = {(FAMILIES[index % len(FAMILIES)], mark_of(index)) for index in range(count)}
    assert len(looks) == count and [mark_of(index) for index in range(len(SHAPES))] == list(SHAPES)
