"""A second embedder beside the first: its numbers, whether the two agree, and what is said where nobody verifies."""

from dataclasses import replace

import pandas as pd
import pytest

from smoothsweep.orchestrator.page.audit import audit_page
from smoothsweep.orchestrator.reading.audit.as_json import audit_json
from smoothsweep.orchestrator.reading.audit.result import AuditNotes, read_audit, with_second
from smoothsweep.orchestrator.reading.audit.sentences import audit_sentences
from smoothsweep.orchestrator.result.data import Axis, ReportData
from smoothsweep.orchestrator.result.summary import summarise

NAMES = ["Ann", "Bob", "Cy", "Di"]
CHECKS = {"embedder_real_acc": 0.98, "verified_far1_real": 0.96, "embedder_reach": 0.9, "verified_far1_reach": 0.9}
RATES = {  # attack -> judge -> matched, verified
    "ppa": {"first": (0.7, 0.10), "second": (0.5, 0.12), "strict": (0.4, 0.55)},
    "if_gmi": {"first": (0.2, 0.0), "second": (0.6, 0.9), "strict": (0.3, 0.0)},
    "random": {"first": (0.1, 0.0), "second": (0.05, 0.01), "strict": (0.0, 0.0)},
}


def summary(judge, order, verifies=True):
    rows = [
        {
            "trial": f"{name}-{seed}",
            "seed": seed,
            "status": "done",
            "failure": None,
            "attack_settings": name,
            "attack_access": "none" if name == "random" else "gradients",
            "attack_control": name == "random",
            "attack_published": True,
            "test_acc": 0.8,
            "embedder_acc1": RATES[name][judge][0],
            **({"verified_far1": RATES[name][judge][1]} if verifies else {}),
            **(CHECKS if verifies else {"embedder_real_acc": 0.98}),
            "queries": 10.0,
        }
        for name in order
        for seed in (1, 2)
    ]
    classes = [
        {"trial": row["trial"], "class": label, "embedder_acc1": row["embedder_acc1"]}
        for row in rows
        for label in range(len(NAMES))
    ]
    axes = (Axis(key="attack_settings", role="attack", bare=True),)
    data = ReportData(title="t", results=pd.DataFrame(rows), per_class=pd.DataFrame(classes), axes=axes)
    return data, summarise(data)


def first(verifies=True, **notes):
    return read_audit(*summary("first", list(RATES), verifies), AuditNotes(names=NAMES, classes=20, **notes))


def test_the_second_judges_the_attack_that_is_strongest_by_the_first():
    """Its own table has another order and another strongest attack."""
    found = with_second(first(), summary("second", ["random", "if_gmi", "ppa"])[1], "mobilefacenet_b")
    one = {standing.metric: standing for standing in found.second}["verified_far1"]
    assert (one.leak.value, one.control.value) == pytest.approx((0.12, 0.01))
    assert one.words.endswith(", by mobilefacenet_b") and found.standing == first().standing
    (said,) = [line for line in audit_sentences(found)["answer"] if "second embedder" in line]
    assert "(mobilefacenet_b)" in said and "12" in said and "10" in said and said.endswith("The two agree.")


def test_page_and_json_have_both():
    found = with_second(first(), summary("second", list(RATES))[1], "mobilefacenet_b")
    page = audit_page(found, name="m", facts={}, portraits=[], anonymous=False)
    for one in (*found.standing, *found.second):
        assert f">{one.words}<" in page
    told = audit_json(found, {})
    assert told["judge"]["name"] is None
    assert told["second_judge"] == "mobilefacenet_b" and len(told["second_standing"]) == len(found.second)
    alone = audit_json(first(), {})
    assert alone["second_judge"] is None and alone["second_standing"] == []


def test_a_second_that_has_not_judged_this_attack_adds_nothing():
    assert with_second(first(), summary("second", ["if_gmi", "random"])[1], "facenet") == first()


@pytest.mark.parametrize(
    ("verifies", "judge", "strangers", "said"),
    [
        (True, "embedder_acc1", 30, None),
        (False, "embedder_acc1", 30, "Not verified: a threshold of 1 % false accepts takes 50 public images or more"),
        (False, "attack_acc1", 900, "Not verified: the judge is a second classifier of the same images"),
    ],
)
def test_where_nothing_is_verified_one_line_says_why(verifies, judge, strangers, said):
    found = replace(first(verifies=verifies, strangers=strangers), judge=judge)
    lines = [line for line in audit_sentences(found)["answer"] if line.startswith("Not verified")]
    assert lines == [] if said is None else len(lines) == 1 and lines[0].startswith(said)


def test_public_images_that_do_not_fit_are_said_on_the_first_page():
    doubt = "the public images show another kind of thing"
    found = first(told=(doubt,))
    assert audit_sentences(found)["answer"][-1] == "The public images show another kind of thing."
    assert doubt[1:] in audit_page(found, name="m", facts={}, portraits=[], anonymous=True)
