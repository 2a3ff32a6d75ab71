"""Shadow models of an audit: how many there is time for, and what is said of those there is not."""

import json

import pytest

from smoothsweep.orchestrator.cli import main
from smoothsweep.orchestrator.commands.audit import rounds, shadows, work
from smoothsweep.orchestrator.commands.audit.forecast import Cost
from smoothsweep.sweeps.imported import ImportedClassifier
from tests.memorising import write_split
from tests.orchestrator.commands.test_audit_time import Clock


class Shadowed(Clock):
    """An audit in which a shadow model takes a minute, and that with membership in its pages.

    stored: for how many shadow models the store holds everything.
    """

    def __init__(self, monkeypatch, card, out, *, holds=True, stored=0, **given):
        super().__init__(monkeypatch, card, **{"first": 60, "training": 120, "seed": 0, **given})
        self.stored, self.ran, self.wrote = stored, [], work.Work.write
        out.mkdir(exist_ok=True)
        (out / "audit.json").write_text(json.dumps({"membership": {"holds": holds}}))

        def cost(tree, store):
            asked = tree["judges"]["membership"]["shadows"]
            return Cost(training=60.0 * max(0, asked - self.stored), rest=0.0)

        def attack(one):
            one.shadows = max(one.shadows, self.stored)
            if one.shadows > one.attacked_by:
                self.now += 60 * max(0, one.shadows - self.stored)
                one.attacked_by = one.shadows
                self.ran.append(one.shadows)
            return 0

        do = work.Work.do

        def do_both(one, done):
            code = do(one, done)
            return code or (one.attack_by_shadows() if done.trainings else 0)

        monkeypatch.setattr(work.Work, "do", do_both)
        monkeypatch.setattr(work.Work, "attack_by_shadows", attack)
        monkeypatch.setattr(rounds, "has_membership", lambda tree, store: False)
        monkeypatch.setattr(shadows, "forecast", cost)
        monkeypatch.setattr(shadows, "open_store", str)
        monkeypatch.setattr(
            shadows, "has_membership", lambda tree, store: tree["judges"]["membership"]["shadows"] <= self.stored
        )


@pytest.fixture(scope="module")
def people(tmp_path_factory):
    return write_split(tmp_path_factory.mktemp("split") / "people")


def audit(owned, model, people, out, *more):
    given = ["--data", people, "--public", owned[2], "--out", out, "--reference", "--trained-on-data"]
    return main(["audit", str(model), *map(str, given), *map(str, more)])


@pytest.mark.parametrize(
    ("minutes", "count"),
    [(2, 0), (3, 0), (6.9, 0), (7, 4), (10.9, 4), (11, 8), (18.9, 8), (19, 16), (200, 16)],
)
def test_as_many_are_trained_as_there_is_time_for_and_fewer_than_four_are_not_begun(
    imported, owned, people, monkeypatch, tmp_path, capsys, minutes, count
):
    """The first answer takes a minute, the reference two, a shadow model one. Pages are written after every round, and
    at once where there is none to come."""
    card, out = ImportedClassifier(imported=str(imported)).checked, tmp_path / "out"
    clock = Shadowed(monkeypatch, card, out)
    assert audit(owned, imported, people, out, "--minutes", minutes) == 0
    said = capsys.readouterr().out
    assert clock.ran == ([count] if count else [])
    left = [line for line in said.splitlines() if line.startswith("Not tried: membership by shadow models: 4 of")]
    assert len(left) == (count == 0)
    if count:
        assert f"to come: membership by shadow models: {count} of plain training, each on a random half" in said
        assert f"about {count} min 00 s of a device" in said
        assert said.index("to come: membership by shadow") > said.index("to come: plain training")
    else:
        assert "--minutes 8 or more tries it" in left[0] and (left[0] in clock.said) == (minutes == 2)


@pytest.mark.parametrize("why", ["labels", "no claim", "few images"])
def test_where_they_cannot_say_anything_none_is_trained(imported, owned, people, monkeypatch, tmp_path, capsys, why):
    card, out, more = ImportedClassifier(imported=str(imported)).checked, tmp_path / "out", []
    clock = Shadowed(monkeypatch, card, out, holds=why != "no claim")
    if why == "labels":
        more = ["--access", "labels"]
    if why == "few images":
        people = write_split(tmp_path / "few")
        person = sorted((people / "train").iterdir())[1]
        for part, kept in ((person, 2), (people / "test" / person.name, 1)):
            for path in sorted(part.iterdir())[kept:]:
                path.unlink()
    assert audit(owned, imported, people, out, "--minutes", 300, *more) == 0
    said = capsys.readouterr().out
    assert clock.ran == [] and "to come: membership by" not in said and "to come: plain training" in said
    [line] = [line for line in said.splitlines() if "shadow models" in line] or [""]
    if why == "few images":
        assert line.startswith("Not tried: membership by shadow models: expected at least 2 images of every class in a")
        assert "of class 1 (" in line and person.name not in line
    else:
        assert line == ""
