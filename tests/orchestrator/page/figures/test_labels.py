"""Where names stand in a figure: on no other name, on no point, and within its panel."""

from hypothesis import given, settings
from hypothesis import strategies as st

from smoothsweep.orchestrator.page.figures.labels import Labels


def overlap(a, b):
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]


PANEL = (48.0, 30.0, 688.0, 386.0)
PIXELS = st.tuples(st.floats(PANEL[0], PANEL[2]), st.floats(PANEL[1], PANEL[3]))


@settings(max_examples=25, deadline=None)
@given(
    points=st.lists(st.tuples(PIXELS, st.floats(20, 290), st.integers(1, 2)), min_size=11, max_size=16),
    close=st.sampled_from([1.0, 0.1, 0.0]),
)
def test_no_name_lies_on_another_name_or_on_a_point(points, close):
    """close: how far apart the points are, down to all at one place."""
    middle = (300.0, 180.0)
    spots = [tuple(m + close * (at - m) for at, m in zip(spot, middle, strict=True)) for spot, _, _ in points]
    labels = Labels()
    for x, y in spots:
        labels.mark(x, y, 8)
        labels.keep_clear(PANEL[0], y - 1, PANEL[2], y + 1)
    placed = [
        labels.place(x, y, width, PANEL, lines=lines) for (x, y), (_, width, lines) in zip(spots, points, strict=True)
    ]
    assert sum(spot is not None for spot in placed) == len(labels.names) >= 9, "there is room for most"
    for number, box in enumerate(labels.names):
        assert PANEL[0] <= box[0] and box[2] <= PANEL[2] and PANEL[1] <= box[1] and box[3] <= PANEL[3]
        assert not any(overlap(box, other) for other in labels.names[:number])
        assert not any(overlap(box, (x - 8, y - 8, x + 8, y + 8)) for x, y in spots)
