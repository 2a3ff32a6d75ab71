"""What an audit says of a reference and of other recipes: nothing that the seeds do not carry, and what it cost."""

import json
import re
from functools import cache

import numpy as np
import pandas as pd
import pytest

from smoothsweep.orchestrator.page.audit import audit_page, audit_pdf
from smoothsweep.orchestrator.reading.audit.as_json import audit_json
from smoothsweep.orchestrator.reading.audit.result import AuditNotes, read_audit
from smoothsweep.orchestrator.reading.audit.sentences import audit_sentences
from smoothsweep.orchestrator.result.data import Axis, ReportData, StageLink
from smoothsweep.orchestrator.result.summary import summarise

MODEL, PLAIN, WEAK, STRONG = "imported model", "plain training", "smoothing -0.05", "smoothing -0.8"
ATTACKS = ("ppa", "adapted")
PEOPLE, CLASSES = [f"p{k}" for k in range(10)], 10
LEAKS = {MODEL: 0.7, PLAIN: 0.7, WEAK: 0.7, STRONG: 0.2}
ACCURACY = {MODEL: 0.95, PLAIN: 0.9, WEAK: 0.91, STRONG: 0.88}


def data(seeds, recipes, model, published=ATTACKS):
    """Two attacks and a control; the second attack is weaker everywhere but on STRONG, where it finds a little more.

    model: the leak of the model under audit. published: attacks that were not made to find what is hidden.
    """
    leaks = {**LEAKS, MODEL: model}
    rows, classes, links = [], [], {}
    noise = np.random.default_rng(1)
    for recipe in recipes:
        for attack, shift in (("ppa", 0.0), ("adapted", 0.1 if recipe == STRONG else -0.2), ("random_latents", None)):
            for seed in seeds:
                control = shift is None
                rates = 0.1 if control else leaks[recipe] + shift
                rates = np.clip(rates + noise.normal(0, 0.01, CLASSES), 0, 1)
                trial = f"{recipe}-{attack}-{seed}"
                rows.append(
                    {
                        "trial": trial,
                        "seed": seed,
                        "status": "done",
                        "failure": None,
                        "recipe_settings": recipe,
                        "attack_settings": attack,
                        "attack_access": "none" if control else "gradients",
                        "attack_control": control,
                        "attack_published": attack in published,
                        "test_acc": ACCURACY[recipe],
                        "embedder_acc1": float(rates.mean()),
                        "queries": None if control else 50.0,
                    }
                )
                classes += [{"trial": trial, "class": k, "embedder_acc1": rate} for k, rate in enumerate(rates)]
                own = [] if recipe == MODEL else [StageLink(stage="target", path=f"t/{recipe}/{seed}", seconds=60.0)]
                links[trial] = (
                    StageLink(stage="target", path="t/evaluator", seconds=1000.0),
                    *own,
                    StageLink(stage="attack", path=f"a/{trial}", seconds=5.0),
                )
    axes = (Axis(key="recipe_settings", bare=True, defense=True), Axis(key="attack_settings", role="attack", bare=True))
    return ReportData(
        title="t",
        results=pd.DataFrame(rows),
        per_class=pd.DataFrame(classes),
        axes=axes,
        links=links,
        baseline={"recipe_settings": PLAIN},
    )


@cache
def summarised(seeds, recipes, model, published=ATTACKS):
    given = data(range(1, seeds + 1), recipes, model, published)
    return given, summarise(given)


def read(seeds, recipes=(MODEL, PLAIN, WEAK, STRONG), model=0.7, published=ATTACKS, **notes):
    usual = {"names": PEOPLE, "classes": CLASSES, "recipe": MODEL, "architecture": "resnet18", "epochs": 40}
    return read_audit(*summarised(seeds, recipes, model, published), AuditNotes(**(usual | notes)))


@pytest.fixture(scope="module")
def audit():
    return read(3, planned={PLAIN: 71.0}, unfit=("Not tried: mixup.",))


def test_the_model_s_own_numbers_are_those_of_its_trials_alone(audit):
    assert {one.attack for one in audit.reached} == {"ppa", "adapted", "random_latents"}
    assert audit.strongest.leak == pytest.approx(0.7, abs=0.02) and audit.test_acc == pytest.approx(0.95)
    alone = read(3, recipes=(MODEL,))
    assert alone.beside == () and alone.strongest.leak == pytest.approx(audit.strongest.leak)


def test_every_recipe_counts_with_the_attack_that_works_best_against_it(audit):
    assert [(one.role, one.recipe, one.reached.attack) for one in audit.beside] == [
        ("model", MODEL, "ppa"),
        ("reference", PLAIN, "ppa"),
        ("fix", WEAK, "ppa"),
        ("fix", STRONG, "adapted"),
    ]
    assert audit.beside[3].leak.reduction == pytest.approx(0.7 - 0.3, abs=0.02)
    assert [one.leak and one.leak.word for one in audit.beside] == ["inconclusive", None, "inconclusive", "reduces"]


def test_a_difference_is_told_where_the_statistics_tell_it_and_nowhere_else(audit):
    said = audit_sentences(audit)["beside"]
    assert "90.0" in said[0] and "95.0" in said[0]
    assert "Which of the two leaks more is inconclusive (reduction" in said[1]
    [fix] = [line for line in said if "reduces the leak of plain training" in line]
    assert STRONG.capitalize() in fix and WEAK not in fix and "88.0" in fix and "reduction +4" in fix
    [other] = [line for line in said if line.startswith("Of the others")]
    assert f"{WEAK}: inconclusive (" in other
    less = audit_sentences(read(3, recipes=(MODEL, PLAIN), model=0.4))["beside"]
    assert "Against trainings like the reference this model reduces the leak (reduction +" in less[1]


def test_a_reduction_pays_for_the_choice_among_the_attacks():
    """Both pay for the choice among the attacks; too few seeds leave both inconclusive."""
    few, more = (read(seeds, recipes=(MODEL, PLAIN), model=0.65, published=("ppa",)) for seeds in (2, 5))
    assert (few.model.leak.word, more.model.leak.word) == ("inconclusive", "reduces")
    for one in (few, more):
        new = json.loads(json.dumps(audit_json(one, {})))["beside"][0]["reduction"]
        assert new["verdict"] == one.model.leak.word and new["high"] <= 1
        assert new["hidden"] is not None and new["comparisons"] == 2 and new["attack"] in ("ppa", "adapted")
    assert read(2, recipes=(MODEL, PLAIN), model=0.4).model.leak.hidden is None


def test_one_seed_claims_nothing_and_says_how_to_have_more():
    one = audit_sentences(read(1))["beside"]
    assert "is inconclusive with one seed" in one[1] and "--seeds" in one[1]
    assert not any("reduces the leak of" in line for line in one)
    assert any("Whether a recipe reduces the leak is inconclusive" in line and "--seeds" in line for line in one)


@pytest.mark.parametrize("recipes", [(MODEL, PLAIN), (MODEL, PLAIN, WEAK, STRONG)])
def test_page_pdf_and_json_tell_the_same(recipes):
    audit = read(3 if len(recipes) > 2 else 1, recipes=recipes, unfit=("Not tried: mixup.",))
    given = {"name": "m", "facts": {}, "anonymous": False, "portraits": []}
    page, pdf = re.sub("</?kbd>", "", audit_page(audit, **given)), audit_pdf(audit, **given)
    found = json.loads(json.dumps(audit_json(audit, {"name": "m"})))
    assert all(line in page for line in found["said"]["beside"]) and len(found["said"]["beside"]) >= 2
    assert all(line in page.replace("&#39;", "'") for line in found["said"]["trainings"])
    assert "Not tried: mixup." in page and [one["role"] for one in found["beside"]][:2] == ["model", "reference"]
    assert found["beside"][0]["reduction"]["verdict"] == audit.model.leak.word
    assert found["beside"][1]["reduction"] is None
    assert pdf.count(b"/Type /Page\n") == 2 and ("--fix" in page) == (len(recipes) == 2)
