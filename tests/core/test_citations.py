"""What is to be cited: every source that a member of a family names is in the file, whole, and comes out once."""

import re
import tomllib

import pytest

from smoothsweep.core.attacks.registry import ATTACKS
from smoothsweep.core.citations import PAPER, SOFTWARE, bibliography, key_of, known_citations
from smoothsweep.core.data.names import PUBLISHED_NAMES
from smoothsweep.core.defenses.registry import DEFENSES
from smoothsweep.core.errors import InputError
from smoothsweep.core.judges.table import JUDGES
from smoothsweep.core.models.embedder_kinds import KINDS
from smoothsweep.core.priors.kinds import PRIORS

OURS = {"random_latents", "general", "embedder", "synthetic"}
"""Members that nobody published, or whose sources are those of their network."""
FAMILIES = {
    **{f"attack {name}": kind.cites for name, kind in ATTACKS.items()},
    **{f"defense {name}": kind.cites for name, kind in DEFENSES.items()},
    **{f"judge {name}": kind.cites for name, kind in JUDGES.items()},
    **{f"prior {name}": kind.cites for name, kind in PRIORS.items()},
    **{f"network {name}": kind.cites for name, kind in KINDS.items()},
    **{f"data {name}": row.cites for name, row in PUBLISHED_NAMES.items()},
}


@pytest.mark.parametrize("member", FAMILIES)
def test_every_member_names_sources_that_are_in_the_file(member):
    assert FAMILIES[member] or member.split()[1] in OURS
    assert not set(FAMILIES[member]) - set(known_citations())


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
