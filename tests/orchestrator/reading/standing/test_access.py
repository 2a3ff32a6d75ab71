"""What attackers of each access level get of a recipe."""

from types import SimpleNamespace

import pandas as pd
import pytest

from smoothsweep.orchestrator.reading.standing.judged import by_access

FOUND = {"labels": {"mine": 0}, "scores": {}, "gradients": {"mine": 1}}


def summary(levels):
    return SimpleNamespace(
        primary="embedder_acc1",
        access_levels=levels,
        frame=pd.DataFrame({"recipe": ["mine", "mine"]}),
        worst=lambda metric, level: FOUND[level],
        value_text=lambda row: f"{10 * (1 + row)} %",
    )


@pytest.mark.parametrize("levels", [["labels"], ["labels", "scores"], ["scores"], []])
def test_one_level_alone_says_nothing_of_the_others(levels):
    assert by_access(summary(levels), 0) == ()
