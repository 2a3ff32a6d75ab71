"""Members of other packages that cannot be used: one line where they are listed and named, and nothing else breaks."""

import yaml
from tiny import searchable, tiny_sweep

from tests.test_plugins import SEARCH, SMALL, fake, ours

FAULTS = {
    "attacks": {
        "broken = no_such_module:Thing": "cannot load no_such_module:Thing: ModuleNotFoundError",
        "ppa = smoothsweep.core.attacks.random_latents:RandomLatents": "smoothsweep itself both bring attacks ppa",
        "taken = odd_attacks:Taken": "expected names of parts that no other attack has, got pool",
        "unlike = odd_attacks:Unlike": "expected names of parts that begin with own_, got target",
        "zero = odd_attacks:Zero": "the default of steps: expected a whole number of at least 1, got 0",
        "typeless = odd_attacks:Typeless": "expected types that its module knows, got: name 'Nowhere' is not defined",
        "made = odd_attacks:MADE": "expected an Attack at odd_attacks:MADE, got Attack(",
        "Big-Name = odd_attacks:Fine": "expected a name of small letters, digits and _, got 'Big-Name'",
        "sees = odd_attacks:Sees": "access: expected one of none, labels, scores, gradients, got 'everything'",
        "cited = odd_attacks:Cited": "expected a key of citations.bib or a BibTeX entry, got 'nobody2020nothing'",
        "ends = odd_ends:Thing": "cannot load odd_ends:Thing: SystemExit: 7",
        "ends_early = odd_package.inner:Thing": "cannot load odd_package.inner:Thing: SystemExit: 7",
        "raises = odd_raises.inner:Thing": "cannot load odd_raises.inner:Thing: Odd: nothing works",
        "place = not a place:at all": "cannot load not a place:at all: ",
        "empty =": "cannot load : ",
        "twice = smoothsweep.core.attacks.random_latents:RandomLatents": "another package both bring attacks twice",
    },
    "judges": {
        "blank = odd_attacks:Blank": "expected at least one column, got none",
        "odd = json:JSONDecoder": "expected a Judge at json:JSONDecoder",
        "twin = smoothsweep.core.judges.fidelity:Fidelity": "columns that no other judge has, got coverage, density",
    },
    "models": {
        "resnet18 = odd_attacks:Model": "expected a name that no architecture has, got 'resnet18'",
    },
    "priors": {
        "number = odd_attacks:NUMBER": "expected a dataclass of settings, got <class 'int'>",
        "plain = odd_attacks:PLAIN": "expected settings that derive from PriorSettings, got Plain",
    },
    "search": {
        "best = no_such_module:BEST": "cannot load no_such_module:BEST: ModuleNotFoundError",
    },
}
ODD = """
from dataclasses import dataclass
from smoothsweep.core.bounds import Count
from smoothsweep.core.priors.settings import PriorKind
from smoothsweep.core.attacks.shared.base import Attack, Part
from smoothsweep.core.judges.base import Judge
from smoothsweep.core.attacks.shared.base import PartKind
from smoothsweep.core.external.base import ForeignModel

class Taken(Attack):
    own_parts = {"pool": PartKind(version=1, make="odd_attacks:make")}

class Fine(Attack):
    pass

class Sees(Attack):
    access = "everything"

class Cited(Attack):
    cites = ("nobody2020nothing",)

class Needy(Attack):
    @property
    def parts(self):
        return (Part(name="own_nothing", needs=("target",), settings={}),)

class Blank(Judge):
    stage = "blank"

class Model(ForeignModel):
    file = "model.odd"

class Unlike(Attack):
    own_parts = {"target": PartKind(version=1, make="odd_attacks:make")}

@dataclass(frozen=True, kw_only=True)
class Zero(Attack):
    steps: Count = 0

@dataclass(frozen=True, kw_only=True)
class Typeless(Attack):
    place: "Nowhere" = None

@dataclass(frozen=True, kw_only=True)
class Plain:
    count: Count = 1

MADE = Attack()
NUMBER = PriorKind(settings=int, make="odd_attacks:make")
PLAIN = PriorKind(settings=Plain, make="odd_attacks:make")
"""
RAISES = "class Odd(BaseException): pass\nraise Odd('nothing works')"
PLAN = """
import sys
from smoothsweep.orchestrator.cli import main
for path in sys.argv[2:]:
    print(main(["plan", path, "--store", sys.argv[1]]))
"""

PROVENANCE = """
from smoothsweep.orchestrator.tracking.tracker import provenance_tags, _installed
assert "smoothsweep.torch" in provenance_tags()
print(*(f"{name}=={version}" for name, version in _installed().items()))
"""


def test_what_cannot_be_used_is_one_line_where_it_is_listed_and_where_it_is_named(tmp_path):
    places = [
        fake(tmp_path / "a", "odd-one", "3.1", {family: "\n".join(lines) for family, lines in FAULTS.items()}),
        fake(tmp_path / "b", "other", "1.0", {"attacks": list(FAULTS["attacks"])[-1]}),
    ]
    (tmp_path / "a" / "odd_attacks.py").write_text(ODD)
    (tmp_path / "a" / "odd_ends.py").write_text("raise SystemExit(7)")
    for package, text in (("odd_package", "import os\nraise SystemExit(7)"), ("odd_raises", RAISES)):
        (tmp_path / "a" / package).mkdir()
        (tmp_path / "a" / package / "__init__.py").write_text(text)
    listed, named = ours(["-m", "smoothsweep", "plugins"], places), {}
    faults = [said for lines in FAULTS.values() for said in lines.values()]
    assert listed.returncode == 2 and listed.stderr.count("\n") == len(faults)
    assert all(said in listed.stderr for said in faults) and "plugin odd-one 3.1" in listed.stderr
    for family in ("attacks", "judges", "search"):  # which a sweep file names; a model's card does, too
        for line, said in FAULTS[family].items():
            name = line.partition(" ")[0]
            naming = {
                "attacks": lambda name: tiny_sweep(attack={**SMALL, "kind": name}),
                "judges": lambda name: tiny_sweep(judges={name: {}}),
                "search": lambda name: searchable("tiny", {**SEARCH, "strategy": name}),
            }
            path = tmp_path / f"{name}.yaml"
            path.write_text(yaml.safe_dump(naming[family](name), sort_keys=False))
            named[str(path)] = said
    refused = ours(["-c", PLAN, str(tmp_path / "store"), *named], places)
    assert refused.stdout.split() == ["2"] * len(named)
    lines = [line for line in refused.stderr.splitlines() if not line.endswith("it is left out")]
    for said, line in zip(named.values(), lines, strict=True):
        assert said in line


def test_what_nobody_names_breaks_nothing(tmp_path):
    """What cannot be loaded is named in a line; what pip left says nothing."""
    place = fake(tmp_path / "site", "odd-one", "3.1", {"judges": "broken = odd_package.inner:Thing"})
    (place / "odd_package.py").write_text("raise SystemExit(7)")
    fake(place, "~d-one", "3.0", {"judges": "rest = no_such_module:Thing"})
    fake(place, "nameless", "1", {"judges": "rest = no_such_module:Thing"})
    (place / "nameless-1.dist-info" / "METADATA").write_bytes(b"\xff\xfe")
    (place / "empty-1.dist-info").mkdir()
    path = tmp_path / "tiny.yaml"
    path.write_text(yaml.safe_dump(tiny_sweep(), sort_keys=False))
    planned = ours(["-m", "smoothsweep", "plan", str(path), "--store", str(tmp_path / "s")], [place])
    assert planned.returncode == 0 and planned.stderr.count("\n") == 1
    assert "odd-one 3.1" in planned.stderr and "SystemExit: 7" in planned.stderr
    noted = ours(["-c", PROVENANCE], [place])
    assert noted.returncode == 0 and "odd-one==3.1" in noted.stdout and "odd-one==3.0" not in noted.stdout


def test_a_part_that_nobody_brings_is_one_line(tmp_path):
    place = fake(tmp_path / "site", "odd-one", "3.1", {"attacks": "needy = odd_attacks:Needy"})
    (tmp_path / "site" / "odd_attacks.py").write_text(ODD)
    path = tmp_path / "tiny.yaml"
    path.write_text(yaml.safe_dump(tiny_sweep(attack={"kind": "needy"}), sort_keys=False))
    refused = ours(["-m", "smoothsweep", "plan", str(path), "--store", str(tmp_path / "s")], [place])
    assert refused.returncode == 2 and refused.stderr.count("\n") == 1 and not (tmp_path / "s").exists()
    assert "parts: expected one of pool, candidates," in refused.stderr and "got 'own_nothing'" in refused.stderr
