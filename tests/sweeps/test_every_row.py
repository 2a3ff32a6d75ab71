"""The sweeps of Tables 1 to 13 together: no printed row is missing, and what they share is one stage."""

from pathlib import Path

from smoothsweep.orchestrator.stages.graph import data_stage
from smoothsweep.orchestrator.stages.judges import judging_model_stage
from smoothsweep.orchestrator.stages.stage import files_may_be_absent
from smoothsweep.sweeps.expand import expand
from smoothsweep.sweeps.load import load_sweep
from smoothsweep.sweeps.paper_numbers import TABLES, matching, printed_rows
from smoothsweep.sweeps.paper_settings import recipe_axes

SWEEPS = Path(__file__).resolve().parents[2] / "sweeps"
SHOWN_AGAIN = {"1": ("13",)}  # table -> those of the same targets: Table 13 asks people about three of Table 1's


def rows_filled(file):
    """(table, row) of every cell."""
    loaded = load_sweep(file)
    for cell in expand(loaded):
        paper, settings = loaded.sweep.paper, cell.settings
        for table in (paper.table, *SHOWN_AGAIN.get(paper.table, ())):
            row = matching(recipe_axes(settings, paper.dataset_of(settings.data), table), table)
            assert row is not None or table != paper.table, (file.name, cell.values)
            if row is not None:
                yield table, row.first.row


def test_no_printed_row_is_without_a_cell_and_no_cell_without_a_row():
    of_files = [list(rows_filled(file)) for file in SWEEPS.glob("table*.yaml")]
    assert all(len(set(pairs)) == len(pairs) for pairs in of_files), "a row has one cell of a sweep"
    filled = {pair for pairs in of_files for pair in pairs}
    printed = {(table, row.first.row) for table in TABLES for row in printed_rows(table)}
    assert len(printed) == 179 and sorted(printed - filled) == [] and filled <= printed


def test_tables_of_one_data_set_share_its_evaluation_model():
    """It is the paper's: one for each data set, at 224 pixels; Table 8 has its own, at 64."""
    models = {}
    with files_may_be_absent():
        for file in SWEEPS.glob("table*.yaml"):
            for settings in (cell.settings for cell in expand(load_sweep(file))):
                if (evaluator := settings.judges.evaluator) is not None:
                    data = data_stage(settings, evaluator.image_size, for_judges=True)
                    stage = judging_model_stage(evaluator, data, settings.protocol)
                    models.setdefault(settings.data.kind, set()).add(stage.fingerprint)
    assert {kind: len(found) for kind, found in models.items()} == {"facescrub": 1, "celeba": 1, "celeba64": 1}
