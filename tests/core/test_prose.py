"""Sentences of a text file: sections, sentences over several lines, values that hold what begins a sentence."""

import sys
from types import ModuleType

import pytest
from jinja2 import UndefinedError

from smoothsweep.core.prose import sections

TEXT = """{# a remark #}
[first]
{% for name in names %}
- {{ name }} goes on,
  and ends{% if loop.last %} here{% endif %}.
  {% if loop.first %}
  A condition of its own lines.
  {% endif %}
{% endfor %}
[second]
[third]
- One.
"""


@pytest.fixture
def told(tmp_path, monkeypatch):
    package = tmp_path / "told_of"
    package.mkdir()
    (package / "__init__.py").touch()
    monkeypatch.syspath_prepend(str(tmp_path))
    yield package
    sys.modules.pop("told_of", ModuleType(""))


def test_lines_are_sentences_and_values_stay_as_they_are(told):
    (told / "a.txt").write_text(TEXT)
    names = ["Ann", "- of  two\n- lines\n[third]", "\u00a0x"]
    assert sections("told_of", "a.txt", {"names": names}) == {
        "first": (
            "Ann goes on, and ends. A condition of its own lines.",
            "- of  two\n- lines\n[third] goes on, and ends.",
            "\u00a0x goes on, and ends here.",
        ),
        "second": (),
        "third": ("One.",),
    }


def test_a_name_that_is_not_known_is_an_error(told):
    (told / "b.txt").write_text("[a]\n- {{ nobody }}\n")
    with pytest.raises(UndefinedError, match="nobody"):
        sections("told_of", "b.txt", {})
