"""Attacks, defenses and foreign models are named in their own families alone: what differs is declared."""

import ast

import pytest

from smoothsweep.core.attacks.registry import ATTACKS
from smoothsweep.core.defenses.registry import DEFENSES
from smoothsweep.core.external.kinds import KINDS

OWN = {"core/attacks/": ATTACKS, "core/defenses/": DEFENSES, "core/external/": KINDS}
"""Folder of a family -> its table. A literal elsewhere that is a member's name must be below, with its reason."""
USUAL, PAPER = "what is used where nothing is said", "the paper's tables, which have these rows"
PORTFOLIO = "which attacks an audit tries, and with which settings"
OTHER_WORD = "another thing of the same name"
BASELINE = "plain training is label smoothing of 0: what every other defense is compared with"
SMOOTHED = (
    "core/audit/references",
    "orchestrator/commands/data/own_sweep",
    "orchestrator/commands/importing/describing",
    "orchestrator/commands/reporting/sharing/bibliography",
    "orchestrator/planning/reference",
    "orchestrator/stages/graph",
    "sweeps/defenses",
    "sweeps/paper_numbers",
    "sweeps/paper_rows",
    "tasks/knowledge",
    "tasks/settings",
    "tasks/training",
)
EXCEPTIONS = {
    ("core/audit/portfolio.py", "brep_mi"): PORTFOLIO,
    ("core/audit/portfolio.py", "ppa"): PORTFOLIO,
    ("core/audit/portfolio.py", "random_latents"): PORTFOLIO,
    ("core/audit/portfolio.py", "rlb_mi"): PORTFOLIO,
    ("core/audit/portfolio.py", "selection_only"): PORTFOLIO,
    ("core/judges/evaluator.py", "gmi"): "the report of the attack's own code, a word that the attack declares",
    ("tasks/official_reports.py", "gmi"): "the report of the attack's own code, a word that the attack declares",
    ("orchestrator/planning/reference.py", "ppa"): USUAL,
    ("orchestrator/reading/published/comparison.py", "ppa"): PAPER,
    ("sweeps/attacks.py", "ppa"): USUAL,
    **{(f"{module}.py", "label_smoothing"): BASELINE for module in SMOOTHED},
    ("core/audit/references.py", "random_erasing"): PORTFOLIO,
    ("core/judges/knowledge.py", "weight_decay"): OTHER_WORD,
    ("orchestrator/tracking/runs/names.py", "weight_decay"): OTHER_WORD,
    ("orchestrator/reading/published/comparison.py", "bido"): PAPER,
    ("orchestrator/reading/published/comparison.py", "mid"): PAPER,
    ("sweeps/paper_numbers.py", "bido"): PAPER,
    ("sweeps/paper_numbers.py", "mid"): PAPER,
}


def find_names(repository):
    """(module, name) of every literal that is a member's name, outside of its family."""
    for room in ("core", "tasks", "orchestrator", "sweeps"):
        for path in sorted((repository / room).rglob("*.py")):
            module = path.relative_to(repository).as_posix()
            tables = [table for folder, table in OWN.items() if not module.startswith(folder)]
            for node in ast.walk(ast.parse(path.read_text())):
                value = node.value if isinstance(node, ast.Constant) else None
                if isinstance(value, str) and any(value in table for table in tables):
                    yield module, value


@pytest.fixture(scope="module")
def found(repository):
    return set(find_names(repository))


def test_a_member_is_named_in_its_family_alone(found):
    assert sorted(found - EXCEPTIONS.keys()) == [], "declare it in the member's class, or say here why not"


def test_no_exception_is_left_over(found):
    assert sorted(EXCEPTIONS.keys() - found) == []


def test_a_name_elsewhere_is_seen(tmp_path):
    (tmp_path / "tasks").mkdir()
    (tmp_path / "tasks/some.py").write_text("x = kind == 'cma_es'")
    assert list(find_names(tmp_path)) == [("tasks/some.py", "cma_es")]
