"""The file of numbers of two leaks, and the table that is written from it."""

import pandas as pd
import pytest

from tools.result_membership import rows_of
from tools.result_numbers import written
from tools.result_tables import written as table_of
from tools.result_tables_list import Sheet

ALONE = "lowers scores alone"


def recipe(name, word, auc, *, scores=None, labels=None):
    """A row of two_leaks.parquet: AUC with shadow models, one point more by labels, inversion at a half."""
    found = {"recipe": name, "seeds": 5, "persons": 24, "word": word}
    for column, middle in (("inversion", 0.5), ("rmia", auc), ("margin", auc - 0.02), ("label_views", auc + 0.01)):
        found |= {column: middle, f"{column}_low": middle - 0.03, f"{column}_high": middle + 0.04}
    for by, less in (("scores", scores), ("labels", labels)):
        low, middle, high = less or (None, None, None)
        found |= {f"less_by_{by}": middle, f"less_by_{by}_low": low, f"less_by_{by}_high": high}
    return found


@pytest.fixture
def table():
    return pd.DataFrame(
        [
            recipe("plain\u00a0training", "baseline", 0.75),
            recipe(
                "smoothing\u00a0\u22120.8",
                "lowers scores alone",
                0.6,
                scores=(0.1, 0.15, 0.2),
                labels=(-0.01, 0.02, 0.05),
            ),
            recipe("smoothing\u00a00.1", "leaks more", 0.8, scores=(-0.08, -0.05, -0.02), labels=(-0.1, -0.04, 0.02)),
            recipe("MID", "inconclusive", 0.7, scores=(-0.01, 0.05, 0.11), labels=(0.01, 0.02, 0.03)),
        ]
    )


def test_a_recipe_has_every_attack_with_its_interval_and_the_word_by_scores(table):
    lines = written(list(rows_of(table))).splitlines()
    assert "plain training,,Membership by shadow models,5,75.0,%,72.0,79.0,,,," in lines
    assert "smoothing -0.8,,Membership by shadow models,5,60.0,%,57.0,64.0,+15.0,+10.0,+20.0," in lines
    assert "smoothing -0.8,,Membership by scores,5,58.0,%,55.0,62.0,,,," in lines
    assert "smoothing -0.8,,Membership by labels,5,61.0,%,58.0,65.0,+2.0,-1.0,+5.0," in lines
    words = {line.split(",")[0]: line.rsplit(",", 1)[1] for line in lines if ",verdict," in line}
    assert words == {"smoothing -0.8": "reduces", "smoothing 0.1": "leaks more", "MID": "inconclusive"}


def test_the_table_shows_both_leaks_and_leaves_out_what_nobody_measured(table):
    sheet = Sheet(numbers="made up", pages=(), kind="leaks")
    found = table_of(sheet, list(rows_of(table))).splitlines()
    assert found[0] == (
        "| recipe | n | AUC, shadow models | AUC, margin | AUC, labels | inversion | less by scores, points "
        "| less by labels, points | verdict |"
    )
    assert found[2].startswith("| plain training | 5 | 75.0 % [72.0, 79.0] | 73.0 % ") and "| baseline |" in found[2]
    assert "+15.0 [+10.0, +20.0] | +2.0 [−1.0, +5.0] | **reduces** |" in found[3]
    bare = table.drop(columns=[column for column in table if column.startswith("rmia")])
    assert "shadow" not in table_of(sheet, list(rows_of(bare)))
