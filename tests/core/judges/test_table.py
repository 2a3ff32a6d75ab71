"""How the table says that a judge's stage is done."""

from dataclasses import dataclass, replace

import pytest

from smoothsweep.core.judges import table
from smoothsweep.core.judges.base import RECONSTRUCTIONS, Judge, StageWork


@dataclass(frozen=True, kw_only=True)
class Likeness(Judge):
    """A judge that only measures."""


@pytest.mark.parametrize(
    ("reads", "work", "labelled"),
    [
        ((RECONSTRUCTIONS, "data"), StageWork(), {RECONSTRUCTIONS, "data"}),
        (("data", "target", "prior"), StageWork(), {"data", "target"}),
        (("prior",), StageWork(), set()),
        ((RECONSTRUCTIONS, "data"), StageWork(labelled=("data",)), {"data"}),
        ((RECONSTRUCTIONS, "data"), StageWork(run="somewhere:else"), set()),
    ],
)
def test_a_judge_that_measures_compares_the_classes_of_what_it_reads(monkeypatch, reads, work, labelled):
    monkeypatch.setattr(Likeness, "reads", reads)
    monkeypatch.setattr(Likeness, "work", work)
    monkeypatch.setitem(table.JUDGES, "likeness", Likeness)
    found = table.work_of("likeness")
    assert set(found.labelled) == labelled and replace(found, labelled=()) == replace(work, labelled=())
