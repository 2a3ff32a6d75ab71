"""What an audit says: the strongest attack per access level, people by exposure, and pages that agree."""

import json
import re

import numpy as np
import pandas as pd
import pytest

from smoothsweep.core.metrics.intervals import exposures
from smoothsweep.orchestrator.page.audit import Portrait, audit_page, audit_pdf
from smoothsweep.orchestrator.reading.audit.as_json import audit_json
from smoothsweep.orchestrator.reading.audit.result import AuditNotes, read_audit
from smoothsweep.orchestrator.reading.audit.sentences import advice, audit_sentences
from smoothsweep.orchestrator.result.data import Axis, ReportData, StageLink
from smoothsweep.orchestrator.result.summary import summarise

NAMES = ["Zoe <b>", "Ann", "Bob", "Cy"]
ATTACKS = {  # attack -> access, control, hit rate of each person
    "ppa": ("gradients", False, [1.0, 0.5, 0.25, 0.0]),
    "brep_mi": ("labels", False, [0.5, 0.0, 0.0, 0.0]),
    "random_latents": ("none", True, [0.0, 0.0, 0.25, 0.0]),
}


def data(seeds=(1, 2), attacks=ATTACKS):
    rows, classes, links = [], [], {}
    for attack, (access, control, rates) in attacks.items():
        for seed in seeds:
            trial = f"{attack}-{seed}"
            rows.append(
                {
                    "trial": trial,
                    "seed": seed,
                    "status": "done",
                    "failure": None,
                    "attack_settings": attack,
                    "attack_access": access,
                    "attack_control": control,
                    "attack_published": True,
                    "test_acc": 0.8,
                    "embedder_acc1": float(np.mean(rates)),
                    "embedder_real_acc": 0.9,
                    "queries": None if control else 100.0,
                }
            )
            classes += [{"trial": trial, "class": label, "embedder_acc1": rate} for label, rate in enumerate(rates)]
            links[trial] = (
                StageLink(stage="attack", path=f"a/{trial}", seconds=8.0),
                StageLink(stage="pool", path="p", seconds=4.0),
                StageLink(stage="target", path="t", seconds=900.0),
            )
    axes = (Axis(key="attack_settings", role="attack", bare=True),)
    return ReportData(title="t", results=pd.DataFrame(rows), per_class=pd.DataFrame(classes), axes=axes, links=links)


def read(given):
    return read_audit(given, summarise(given), AuditNotes(names=NAMES, classes=20))


@pytest.fixture(scope="module")
def audit():
    return read(data())


@pytest.mark.parametrize("is_program", [True, False])
def test_what_to_do_about_a_program_names_a_network_that_can_be_trained(is_program):
    """`--fix` alone is refused there."""
    given = data()
    found = read_audit(given, summarise(given), AuditNotes(names=NAMES, classes=20, is_program=is_program))
    [said] = [line for line in advice(found) if "--fix" in line]
    assert ("--reference" in said) == is_program and "{" not in said


def test_nothing_is_trained_beside_an_embedder(audit):
    """`--fix` and `--reference` are refused with `--gallery`."""
    given = data()
    notes = AuditNotes(names=NAMES, classes=20, is_program=True, is_enrolled=True)
    said = advice(read_audit(given, summarise(given), notes))
    assert said == advice(audit)[:-1] and not any("--fix" in line or "--reference" in line for line in said)


def test_controls_alone_are_an_audit_that_credits_them_with_no_leak():
    """Of an endpoint that no attack may ask enough: the page says so, and names what was left out."""
    given = data(attacks={"random_latents": ATTACKS["random_latents"]})
    found = read_audit(given, summarise(given), AuditNotes(names=NAMES, classes=20, untried=("Not tried: BREP-MI.",)))
    assert found is not None and found.attacks == () and found.people == () and found.standing == ()
    assert [one.attack for one in found.controls] == ["random_latents"]
    said = audit_sentences(found)
    assert said["answer"][0].startswith("No attack was tried") and said["unknown"][-1] == "Not tried: BREP-MI."
    page = audit_page(found, name="m", facts={}, anonymous=False, portraits=[])
    assert 'id="standing"' not in page and "Everybody" not in page
    assert audit_pdf(found, name="m", facts={}, anonymous=False, portraits=[]).startswith(b"%PDF")


def test_where_every_attack_failed_and_a_control_did_not_there_is_no_audit():
    """It would say that no attack was tried."""
    given = data()
    failed = ~given.results["attack_control"]
    given.results.loc[failed, ["status", "failure", "embedder_acc1"]] = ["failed", "out of memory", np.nan]
    assert read(given) is None


def test_page_pdf_and_json_tell_the_same_and_escape_names(audit):
    pixels = np.full((8, 8, 3), 90, np.uint8)
    given = {
        "name": "m",
        "facts": {"Code": "x"},
        "anonymous": False,
        "portraits": [Portrait(label=0, photograph=pixels, reconstruction=pixels)],
    }
    page, pdf = re.sub("</?kbd>", "", audit_page(audit, **given)), audit_pdf(audit, **given)
    found = json.loads(json.dumps(audit_json(audit, {"name": "m"})))
    assert found["attacks"][0]["leak"] == audit.strongest.leak and found["by_access"]["labels"] == "brep_mi"
    for line in (line for lines in found["said"].values() for line in lines):
        assert line.replace("<b>", "&lt;b&gt;").replace("'", "&#39;") in page
    assert "<b> " not in page.split("Zoe")[1][:8] and page.count("data:image/png") == 2
    order = [
        page.index(part) for part in ('class="answer"', 'id="faces"', 'id="standing"', 'id="details"', 'id="access"')
    ]
    assert order == sorted(order) and page.split('class="answer"')[1].split("</div>")[0].count("<p>") == 1
    assert pdf.startswith(b"%PDF") and pdf.count(b"/Type /Page\n") == 2


def test_a_redacted_audit_has_no_name_and_no_picture(audit):
    given = {"name": "m", "facts": {}, "anonymous": True, "portraits": []}
    page, found = audit_page(audit, **given), json.dumps(audit_json(audit, {}, anonymous=True))
    for name in ("Zoe", "Ann", "Bob"):
        assert name not in page and name not in found
    assert "person 0" in page and "data:image" not in page


CROWD = [f"person {letter}" for letter in "abcdefghijkl"]


def crowd(rates, seeds=(1, 2, 3), images=4):
    """An audit of a dozen people under one attack, every seed with the same rates."""
    given = data(seeds=seeds, attacks={"ppa": ("gradients", False, rates), "none": ("none", True, [0.0] * len(rates))})
    given.per_class["embedder_acc1_images"] = images
    return read_audit(given, summarise(given), AuditNotes(names=CROWD, classes=20))


def test_nobody_is_named_without_an_interval_and_the_probability_of_the_rank():
    audit = crowd([0.0, 1.0, 0.25, 0.5, 0.25, 1.0, 0.25, 0.25, 0.0, 0.25, 0.25, 0.25])
    expected = exposures(np.tile([0, 1, 0.25, 0.5, 0.25, 1, 0.25, 0.25, 0, 0.25, 0.25, 0.25], (3, 1)), np.full(12, 4))
    assert sum(person.among_top for person in audit.people) == pytest.approx(5)
    named, how = audit_sentences(audit)["people"]
    rate = r"matched in (\d+)\s% \[(\d+),\s(\d+)\], the control's images in [\d.]+\s%"
    said = re.findall(rf"(person .) \(probability ([\w\s]+)\s%; {rate}\)", named)
    assert [name for name, *_ in said] == ["person b", "person f", "person d"]
    for name, among, *ends in said:
        at = CROWD.index(name)
        assert int(among.split()[-1]) in (99, round(100 * expected.among_top[at]))
        shown = (expected.rate[at], expected.low[at], expected.high[at])
        assert [int(end) for end in ends] == [round(100 * end) for end in shown]
    assert "shrunk" in how and "assumed" not in how
    page = audit_page(audit, name="m", facts={}, anonymous=False, portraits=[])
    for person in audit.people:
        row = page.split(f'<th scope="row">{person.name}</th>')[1].split("</tr>")[0]
        assert f'data-v="{person.among_top}"' in row and row.count("<td") == 5 and "[" in row


def test_people_who_cannot_be_ranked_are_not_named():
    audit = crowd([0.25] * 12, seeds=(1,))
    first, how = audit_sentences(audit)["people"]
    assert "No person is among the" in first and "42\u00a0%" in first, "five of twelve"
    assert not re.search(r"person [a-l]\b", first) and "assumed, not measured" in how
    (nothing,) = audit_sentences(crowd([0.0] * 12))["people"]
    assert nothing == "No person was matched in any image."


def test_nothing_judged_is_no_audit():
    nothing = data()
    empty = ReportData(title="t", results=nothing.results.drop(columns=["embedder_acc1"]), axes=nothing.axes)
    assert read(empty) is None


def test_the_names_in_audit_json_are_those_that_others_read(audit):
    """Kept by hand: whoever reads the file by a program must find tomorrow what is there today."""
    found = audit_json(audit, {"name": "m"})
    assert list(found) == [
        "version",
        "model",
        "effort",
        "test_acc",
        "classes",
        "chance",
        "judge",
        "attacks",
        "standing",
        "second_judge",
        "second_standing",
        "beyond_control",
        "beside",
        "membership",
        "by_access",
        "people",
        "said",
    ]
    assert (found["version"], found["model"], found["classes"], found["chance"]) == (1, {"name": "m"}, 20, 1 / 20)
    known = {"metric": "embedder_acc1", "name": None, "can_tell": True}
    assert found["judge"] == known | {"real_photographs": pytest.approx(0.9)}
    assert found["test_acc"] == pytest.approx(0.8)
    assert [one["attack"] for one in found["attacks"]] == ["ppa", "brep_mi", "random_latents"]
    assert found["attacks"][1] == {
        "attack": "brep_mi",
        "access": "labels",
        "control": False,
        "leak": 0.125,
        "seeds": 2,
        "low": found["attacks"][1]["low"],
        "high": found["attacks"][1]["high"],
        "queries_per_person": 100.0,
        "device_seconds_per_person": 3.0,
    }
    assert found["attacks"][1]["low"] <= 0.125 <= found["attacks"][1]["high"]
    assert set(found["beyond_control"]) == {"difference", "low", "high", "verdict"}
    first = found["people"][0]
    assert set(first) == {"person", "label", "share", "rate", "low", "high", "among_five", "control", "verified"}
    assert (first["person"], first["label"], first["share"], first["among_five"]) == ("Zoe <b>", 0, 1.0, 1.0)
    assert 0 < first["low"] < first["rate"] < first["high"] < 1
