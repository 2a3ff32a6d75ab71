"""What is to be cited: every source that a member of a family names is in the file, whole, and comes out once."""

import re
import tomllib

import pytest

from smoothsweep.core.attacks.registry import ATTACKS
from smoothsweep.core.citations import PAPER, SOFTWARE, bibliography, key_of, known_citations
from smoothsweep.core.data.kinds import DATA
from smoothsweep.core.data.names import PUBLISHED_NAMES
from smoothsweep.core.defenses.registry import DEFENSES
from smoothsweep.core.errors import InputError
from smoothsweep.core.judges.table import JUDGES
from smoothsweep.core.membership.registry import MEMBERSHIP_ATTACKS
from smoothsweep.core.models.embedder_kinds import KINDS
from smoothsweep.core.priors.kinds import PRIORS

CLASSES = {
    **{f"attack {name}": kind for name, kind in ATTACKS.items()},
    **{f"membership attack {name}": kind for name, kind in MEMBERSHIP_ATTACKS.items()},
    **{f"defense {name}": kind for name, kind in DEFENSES.items()},
    **{f"judge {name}": kind for name, kind in JUDGES.items()},
    **{f"kind of data {name}": kind for name, kind in DATA.items()},
}
FAMILIES = {
    **{member: kind.cites for member, kind in CLASSES.items()},
    **{f"prior {name}": kind.cites for name, kind in PRIORS.items()},
    **{f"network {name}": kind.cites for name, kind in KINDS.items()},
    **{f"data {name}": row.cites for name, row in PUBLISHED_NAMES.items()},
}


@pytest.mark.parametrize("member", FAMILIES)
def test_every_member_names_sources_that_are_in_the_file(member):
    assert not set(FAMILIES[member]) - set(known_citations())


@pytest.mark.parametrize("member", CLASSES)
def test_a_member_without_sources_says_so(member):
    """`cites = ()` is stated where nobody published it, or where its network's sources are all; it is not forgotten."""
    kind = CLASSES[member]
    remedy = "name its sources in `cites`, or say `cites = ()` where nobody published it"
    assert kind.cites or "cites" in vars(kind), f"{member}: {remedy}"


def test_no_entry_is_there_for_nothing_and_each_is_whole():
    cited = {key for cites in FAMILIES.values() for key in cites} | {SOFTWARE, PAPER, "peng2025generative"}
    assert cited == set(known_citations())
    for key, entry in known_citations().items():
        fields = dict(re.findall(r"(\w+) = \{(.*?)\}(?=,? *\n|,? \w+ =)", entry))
        assert {"title", "author"} <= set(fields) and entry.isascii() and entry.count("{") == entry.count("}"), key
        assert fields.get("year", "").isdigit(), key
        if "eprint" in fields:
            assert re.fullmatch(r"\d{4}\.\d{4,5}", fields["eprint"]) and "archiveprefix" in fields


def test_the_softwares_entry_is_of_this_version(repository):
    version = tomllib.loads((repository / "pyproject.toml").read_text())["project"]["version"]
    entry = known_citations()[SOFTWARE]
    assert f"version = {{{version}}}" in entry and f"note = {{Software, version {version}}}" in entry


def test_entries_come_out_once_by_key_and_those_of_plugins_as_they_are():
    own = "@misc{zz2030,\n  title = {A plug-in}\n}"
    text = bibliography(["ng2014data", own, "liu2015deep", "ng2014data", own])
    assert re.findall(r"^@\w+\{([^,]+),", text, re.MULTILINE) == ["liu2015deep", "ng2014data", "zz2030"]
    assert text.endswith(f"{own}\n") and key_of(own) == "zz2030"


@pytest.mark.parametrize("wrong", ["nobody2020", "", "@misc{a, title = {b}", "@misc{}", "A paper of 2020"])
def test_what_is_neither_key_nor_entry_is_one_line(wrong):
    with pytest.raises(InputError, match=r"expected a key of citations\.bib or a BibTeX entry"):
        bibliography([wrong])
