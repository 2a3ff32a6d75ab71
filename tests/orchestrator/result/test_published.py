"""Our cells beside the paper's rows: what is paired, what lies within, what cannot be compared, and how it reads."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from smoothsweep.core.judges.columns import metric_of
from smoothsweep.orchestrator.page.render import part
from smoothsweep.orchestrator.result.data import Axis, PaperReference, ReportData
from smoothsweep.orchestrator.result.published import mark_of, paper_comparison, printed
from smoothsweep.orchestrator.result.summary import summarise
from smoothsweep.orchestrator.result.sweep_result import published_frame
from smoothsweep.sweeps.paper_tables import Standing, matching

SEEDS = (1, 2, 3)
PLAIN = {
    "dataset": "facescrub",
    "architecture": "resnet152",
    "defense": "label_smoothing",
    "samples_per_class": None,
    "attack": "ppa",
}


def sweep_data(values=None, *, alphas=(0.0, -0.05, -0.2), seeds=SEEDS, protocol="paper", spread=0.004, **standings):
    """A sweep over alpha whose metrics lie around `values` (metric -> value, for every alpha) with a given spread."""
    values = {"test_acc": 0.9493, "attack_acc1": 0.9432, "dist_face": 0.9, "fid": 40.88} if values is None else values
    offsets = np.linspace(-1, 1, len(seeds)) if len(seeds) > 1 else [0.0]
    rows = [
        {"trial": f"t{alpha}s{seed}", "seed": seed, "status": "done", "failure": None, "alpha": alpha}
        | {key: value + spread * offset for key, value in values.items()}
        for alpha in alphas
        for seed, offset in zip(seeds, offsets, strict=True)
    ]
    held = {row["trial"]: Standing(axes=PLAIN | {"alpha": row["alpha"]}, **standings) for row in rows}
    return ReportData(
        title="t",
        results=pd.DataFrame(rows),
        axes=(Axis(key="alpha"),),
        protocol=protocol,
        reasons={"xi_train": "the sweep has no knowledge judge"},
        paper=PaperReference(table="2", datasets=("facescrub",), standings=held),
    )


def compared(data):
    return paper_comparison(data, summarise(data))


def line_of(published, metric, block=0):
    return next(line for line in published["blocks"][block] if line["metric"] == metric)


def marked(low, high):
    return mark_of(matching(PLAIN | {"alpha": 0.0}, "2").numbers["test_acc"], 0.95, low, high)


def test_cells_are_paired_with_their_rows_and_the_rest_is_named():
    published = compared(sweep_data())
    assert [(block[0]["recipe"], block[0]["paper_row"]) for block in published["blocks"]] == [
        ("alpha\u00a0\u22120.05", 7),
        ("alpha\u00a00", 4),
    ]
    assert published["strangers"] == {"alpha\u00a0\u22120.2": "the table has no such row"}
    assert len(published["absent"]) == 11
    assert "ResNet-152, alpha 0.3" in published["absent"] and "DenseNet-121, alpha \u22120.05" in published["absent"]
    assert "ResNet-152, alpha 0" not in published["absent"]


def test_within_outside_and_the_difference():
    published = compared(sweep_data())
    own, far = line_of(published, "test_acc", 1), line_of(published, "test_acc", 0)
    assert own["mark"] == "within" and own["difference"] == pytest.approx(0) and own["n"] == 3
    assert far["mark"] == "outside" and far["difference"] == pytest.approx(0.9493 - 0.9145)


@pytest.mark.parametrize(
    ("low", "high", "mark"),
    [
        (0.9493, 0.96, "within"),  # the printed number itself is the end
        (0.93, 0.9493, "within"),
        (0.94934, 0.96, "within"),  # prints as 94.93 %
        (0.94935, 0.96, "within"),  # the last that does
        (0.94936, 0.96, "outside"),
        (0.93, 0.94925, "within"),
        (0.93, 0.94924, "outside"),
        (0.9493, 0.9493, "within"),  # an interval of no width
        (float("nan"), float("nan"), "no interval"),
    ],
)
def test_the_edge_of_the_interval_is_within_as_far_as_the_printed_digits_go(low, high, mark):
    assert marked(low, high) == mark


@given(low=st.floats(0, 1), high=st.floats(0, 1))
def test_a_wider_interval_never_loses_the_papers_number(low, high):
    low, high = sorted((low, high))
    assume(abs(low - 0.94935) > 1e-9 and abs(high - 0.94925) > 1e-9)
    mark = marked(low, high)
    assert mark != "within" or marked(low - 0.01, high + 0.01) == "within"
    assert mark == ("within" if low <= 0.94935 and high >= 0.94925 else "outside")


def test_what_is_missing_stays_empty_with_the_reason():
    published = compared(sweep_data({"test_acc": 0.9493, "dist_knn": 900.0}))
    unjudged, unasked = line_of(published, "xi_train", 1), line_of(published, "attack_acc1", 1)
    assert unjudged["mark"] == "not measured" and unjudged["remark"] == "the sweep has no knowledge judge"
    assert unasked["remark"] == "not measured in this sweep" and np.isnan(unasked["difference"]) and unasked["n"] == 0
    knn = line_of(published, "dist_knn", 1)
    assert knn["paper"] is None and knn["mark"] == "not printed" and knn["ours"] == pytest.approx(900)
    alone = compared(sweep_data(seeds=(1,)))
    assert line_of(alone, "test_acc", 1)["mark"] == "no interval"
    assert line_of(alone, "test_acc", 1)["difference"] == pytest.approx(0)
    assert "have no interval here (one seed)" in alone["share"]


def test_what_does_not_measure_the_same_is_not_subtracted():
    published = compared(sweep_data(protocol="clean", incomparable={"fid": "another input range"}))
    fid = line_of(published, "fid", 1)
    assert fid["mark"] == "not comparable" and np.isnan(fid["difference"]) and fid["remark"] == "another input range"
    assert line_of(published, "test_acc", 1)["mark"] == "within"


def test_departures_are_split_into_shared_and_own():
    data = sweep_data()
    held = {
        trial: replace(known, departures=("epochs 10", *(("steps 5",) if "t0.0" in trial else ())))
        for trial, known in data.paper.standings.items()
    }
    published = compared(replace(data, paper=replace(data.paper, standings=held)))
    assert published["departures"] == ("epochs 10",)
    assert [block[0]["own"] for block in published["blocks"]] == [[], ["steps 5"]]


def test_recipes_that_cannot_be_placed_are_named_not_dropped():
    data = sweep_data(alphas=(0.0,))
    held = {trial: Standing(axes=axes) for trial, axes in zip(data.paper.standings, (None, None, None), strict=True)}
    unknown = compared(replace(data, paper=replace(data.paper, standings=held)))
    assert unknown["strangers"] == {"alpha\u00a00": "how the imported target was trained is not stated"}
    ablation = compared(replace(data, paper=replace(data.paper, table="5")))
    assert "name sampling_alpha" in ablation["strangers"]["alpha\u00a00"]
    assert not ablation["blocks"] and len(ablation["absent"]) == 3
    assert len(published_frame(ablation)) == 0


def test_the_rows_of_the_comparison(tmp_path):
    frame = published_frame(compared(sweep_data(incomparable={"fid": "another input range"})))
    assert len(frame) == 20 and frame["table"].unique().tolist() == ["2"]
    assert frame["protocol"].unique().tolist() == ["paper"]
    frame.to_parquet(tmp_path / "published_comparison.parquet", index=False)
    read = pd.read_parquet(tmp_path / "published_comparison.parquet").set_index(["paper_row", "metric"])
    acc = read.loc[(4, "test_acc")]
    assert acc["paper"] == 0.9493 and acc["within"] == True and acc["n"] == 3  # noqa: E712
    assert read.loc[(7, "test_acc"), "within"] == False  # noqa: E712
    assert pd.isna(read.loc[(4, "fid"), "within"]) and pd.isna(read.loc[(4, "fid"), "difference"])
    assert read.loc[(4, "xi_train"), "remark"] == "the sweep has no knowledge judge"
    assert pd.isna(read.loc[(4, "xi_train"), "ours"]) and read.loc[(4, "xi_train"), "paper"] == 0.6119


def test_the_page_shows_both_numbers_marks_and_reasons():
    data = sweep_data(protocol="clean", incomparable={"fid": "another <input> range"}, departures=("epochs 10",))
    section = part("paper", data)
    assert "94.93\u00a0%" in section and "94.9\u00a0%" in section and "40.88" in section
    assert "\u2713 within" in section and "\u2717 outside" in section and "not comparable" in section
    assert section.count('<tbody class="block') == 2 and 'class="protocol clean"' in section
    assert "another &lt;input&gt; range" in section and "epochs 10" in section
    assert "the table has no such row" in section and "DenseNet-121, alpha \u22120.05" in section
    assert part("paper", replace(data, paper=None)) == ""


def test_printed_digits_are_the_papers():
    row = matching(PLAIN | {"alpha": -0.05}, "2")
    texts = {key: printed(number, metric_of(key)) for key, number in row.numbers.items()}
    assert texts["test_acc"] == "91.45\u00a0%" and texts["attack_acc1_std"] == "7.6\u00a0%"
    assert texts["dist_face"] == "1.2320" and texts["dist_eval"] == "239.02" and texts["ece"] == "0.1474"
    assert printed(None, metric_of("fid")) == ""
