"""Table 8 as a sweep: every printed row has one cell, every cell one row, and what is trained once is one stage."""

import random
from collections import Counter
from pathlib import Path

import pytest

from smoothsweep.orchestrator.planning.trial import Trial
from smoothsweep.orchestrator.stages.stage import files_may_be_absent, with_ancestors
from smoothsweep.sweeps.base import set_dotted
from smoothsweep.sweeps.expand import expand
from smoothsweep.sweeps.load import load_sweep
from smoothsweep.sweeps.paper_tables import departures, paper_rows, standing

FILE = Path(__file__).resolve().parents[2] / "sweeps" / "table8.yaml"
ATTACKS = ("gmi", "ked", "lomma_gmi", "lomma_ked", "plg_mi", "rlb_mi", "brep_mi")


@pytest.fixture(scope="module")
def loaded():
    return load_sweep(FILE)


@pytest.fixture(scope="module")
def cells(loaded):
    return expand(loaded)


def test_each_attack_has_the_papers_number_of_classes_and_one_list_of_them(cells):
    printed = {number.attack: number.classes for number in paper_rows("8")}
    lists = {}
    for cell in cells:
        classes = cell.settings.classes
        lists.setdefault(cell.settings.attack.kind, set()).add(classes)
        assert printed[cell.settings.attack.kind] == (1000 if classes == "all" else len(classes))
    assert all(len(found) == 1 for found in lists.values())
    official = tuple(random.Random(42).sample(range(1000), 100))  # RLB-MI's main.py, lines 65-81
    assert lists["rlb_mi"] == {official} and lists["plg_mi"] == {tuple(range(300))}


@pytest.mark.parametrize(
    ("attack", "key", "value", "line"),
    [
        ("gmi", "attack.gan.epochs", 120, "attack.gan.epochs 120 (paper: 280)"),
        ("lomma_gmi", "attack.form", "L_aug", "attack.form L_aug (paper: ours)"),
        ("plg_mi", "attack.top_n", 20, "attack.top_n 20 (paper: 30)"),
        (
            "plg_mi",
            "classes",
            list(range(1, 301)),
            "classes [1, 2, 3, ..., 300 values] (paper: [0, 1, 2, ..., 300 values])",
        ),
        ("rlb_mi", "classes", "all", "classes all (paper: [654, 114, 25, ..., 100 values])"),
        ("brep_mi", "attack.generator", "prior", "attack.generator prior (paper: general_gan)"),
        ("brep_mi", "attack.inside", 0.5, "attack.inside 0.5 (paper: 0.75)"),
        ("gmi", "recipe.lr_milestones", [0.5, 0.75], "recipe.lr_milestones [0.5, 0.75] (paper: [])"),
        ("gmi", "public", {"kind": "synthetic"}, "public.kind synthetic (paper: celeba64)"),
        (
            "gmi",
            "judges.evaluator.architecture",
            "resnet18",
            "judges.evaluator.architecture resnet18 (paper: ir50_112)",
        ),
    ],
)
def test_every_departure_is_named(cells, attack, key, value, line):
    raw = next(c.settings for c in cells if c.settings.attack.kind == attack).model_dump(mode="json")
    if key == "attack.generator":
        raw["prior"] = {"kind": "eigenfaces"}
        raw["attack"].pop("gan")
    set_dotted(raw, key, value, where="test")
    changed = type(cells[0].settings).model_validate(raw)
    assert line in departures(changed, "celeba", "8")


def test_what_the_other_reports_count_otherwise_is_said(cells):
    for cell in cells:
        stands, attack = standing(cell.settings, "celeba", "8"), cell.settings.attack.kind
        lomma = attack in ATTACKS[:4]
        own = {"attack_acc1_std": "attack_acc1_std_batches"}
        lommas = {**own, "attack_acc5": "attack_acc5_last", "fid": "fid_lomma"}
        assert stands.columns == (lommas if lomma else {**own, "fid": "fid_plg"} if attack == "plg_mi" else {})
        assert stands.columns.keys().isdisjoint(stands.incomparable)
        assert ("labels below 300" in stands.incomparable.get("dist_knn", "")) == lomma
        assert ("dist_knn" in stands.incomparable) == (attack != "plg_mi")
        assert "attack_acc1" not in stands.incomparable and "attack_acc5" not in stands.incomparable


def test_the_nearest_neighbour_distance_is_compared_where_the_same_people_are_counted(cells):
    raw = cells[0].settings.model_dump(mode="json")
    for classes, protocol, compared in ((500, "paper", True), (499, "paper", False), (500, "clean", False)):
        changed = raw | {"classes": list(range(classes)), "protocol": protocol}
        stands = standing(type(cells[0].settings).model_validate(changed), "celeba", "8")
        assert ("dist_knn" not in stands.incomparable) == compared


def test_what_is_trained_once_is_one_stage(loaded, cells):
    """Without any data, as `smoothsweep plan` sees it; also with half of the sweep under the other protocol."""
    clean = load_sweep(FILE, ["protocol=clean", "paper=null"])
    with files_may_be_absent() as absent:
        both = [Trial(cell=cell, seed=seed) for seed in loaded.sweep.seeds for cell in (*cells, *expand(clean))]
        stages = with_ancestors([stage for trial in both for stage in trial.stages])
    assert absent.keys() == {"data.path", "public.path"}
    counts = Counter(stage.name for stage in stages)
    once = sorted(s.config["settings"]["epochs"] for s in stages if s.name == "general_gan")
    assert once == [120, 280]  # LOMMA's and the black boxes', and GMI's own
    assert counts["public"] == 1 and counts["target"] == 2 * 22  # 7 recipes x 3 seeds, and the evaluator
    for part in ("specific_gan", "students", "public_features", "plg_labels", "plg_gan", "starts"):
        assert counts[part] == 2 * 21, part
    assert "prior" not in counts
