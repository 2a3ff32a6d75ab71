"""The members of every family are named in their own files alone: what differs between them is declared."""

import ast
import re

import pytest

from smoothsweep.core.attacks.registry import ATTACKS
from smoothsweep.core.data.kinds import DATA
from smoothsweep.core.data.names import PUBLISHED_SETS
from smoothsweep.core.defenses.registry import DEFENSES
from smoothsweep.core.external.kinds import KINDS
from smoothsweep.core.judges.table import JUDGES, stage_of
from smoothsweep.core.models.embedder_kinds import KINDS as EMBEDDERS
from smoothsweep.core.models.image_sizes import LEAST as ARCHITECTURES
from smoothsweep.core.priors.kinds import PRIORS
from smoothsweep.sweeps.strategies import STRATEGIES


def work_of_judges():
    """The modules of tasks/ that do the work of a judge."""
    places = [place for judge in JUDGES.values() for place in (judge.work.run, judge.work.check) if place is not None]
    return tuple(place.partition(":")[0].removeprefix("smoothsweep.").replace(".", "/") + ".py" for place in places)


BUILT_IN = ("synthetic", "labelled", "unlabelled", *PUBLISHED_SETS)
FAMILIES = {
    "attack": (ATTACKS, ("core/attacks/",)),
    "defense": (DEFENSES, ("core/defenses/",)),
    "foreign model": (KINDS, ("core/external/",)),
    "judge": ({*JUDGES, *map(stage_of, JUDGES)}, ("core/judges/", *work_of_judges())),
    "embedder": (EMBEDDERS.keys() - set(BUILT_IN), ("core/models/",)),
    "prior": (PRIORS, ("core/priors/",)),
    "data": ({*DATA, *BUILT_IN}, ("core/data/", "sweeps/data.py", "tasks/data.py", "tasks/counts.py")),
    "search": (STRATEGIES, ("orchestrator/search/strategies/", "sweeps/strategies.py")),
    "architecture": (ARCHITECTURES, ("core/models/",)),
}
"""Family -> its members' names, and where they may be named. A name elsewhere must be below, with its reason."""
OTHER_WORDS = {
    "membership": "a group of metrics (core/metrics/metric.py), and what a plan says of it",
    "gradients": "the most that an attacker is shown (core/attacks/shared/access.py)",
    "features": "what a network says of an image under its last layer",
    "folder": "a folder",
    "general": "what is not specific",
    "grid": "a key of a sweep file",
    "random": "how something is drawn",
}
"""Names that are common words: such a literal says nothing. `judge_gradients`, the name of a stage, is looked for."""

USUAL, PAPER = "what is used where nothing is said", "the paper's tables and recipes, which name it"
PORTFOLIO = "which attacks an audit tries, and with which settings"
OTHER_WORD = "another thing of the same name"
WRITTEN = "the sweep file that a command writes for its user has this member"
MEASURED = "a table of measured times: what is not in it is forecast by what has run"
BASELINE = "plain training is label smoothing of 0: what every other defense is compared with"
SMOOTHED = (
    "core/audit/references",
    "orchestrator/commands/data/own_sweep",
    "orchestrator/commands/importing/describing",
    "orchestrator/commands/reporting/sharing/bibliography",
    "orchestrator/planning/rates/calibrated",
    "orchestrator/planning/reference",
    "orchestrator/stages/graph",
    "sweeps/defenses",
    "sweeps/paper_numbers",
    "sweeps/paper_rows",
    "tasks/knowledge",
    "tasks/settings",
    "tasks/training",
)
REASONS = {
    "orchestrator/commands/health/calibrating.py": {
        PAPER: "densenet121 inception_v3 resnet152 resnet50 resnext50",
    },
    "orchestrator/planning/rates/calibrated.py": {
        MEASURED: "evaluator judge_evaluator knowledge",
    },
    "core/attacks/distillation/config.py": {
        PAPER: "efficientnet_b0 efficientnet_b1 efficientnet_b2",
    },
    "core/attacks/if_gmi/attack.py": {
        "the networks of a prior, not how it came here": "stylegan2",
    },
    "core/attacks/lowres/base.py": {
        "the paper's Table 8 prints this judge's column": "fid_lomma",
    },
    "core/attacks/plg/attack.py": {
        "the paper's Table 8 prints this judge's column": "fid_plg",
    },
    "core/attacks/surrogate/config.py": {
        USUAL: "densenet121 resnet18",
    },
    "core/audit/judging.py": {
        PORTFOLIO: "evaluator",
    },
    "core/audit/portfolio.py": {
        PORTFOLIO: "brep_mi cma_es eigenfaces ppa random_latents resnet18 resnet_small rlb_mi selection_only vgg_small",
    },
    "core/audit/references.py": {
        PORTFOLIO: "random_erasing",
    },
    "core/defenses/skip_removal.py": {
        "what its authors chose for each network and data set": "densenet121 densenet169 facescrub inception_v3 "
        "resnet101 resnet152 resnet18 resnet34 resnet50 stanford_dogs vgg_small vit_b_16",
    },
    "core/external/recogniser.py": {
        OTHER_WORD: "embedder",
    },
    "orchestrator/commands/audit/subject.py": {
        WRITTEN: "embedder",
    },
    "orchestrator/commands/importing/enrolling.py": {
        "what a card says of the user's own data": "labelled",
        "the kind that it makes, and no other": "recogniser",
    },
    "core/judges/embedder.py": {
        "the example of its test": "synthetic",
    },
    "core/judges/evaluator.py": {
        "the report of the attack's own code, a word that the attack declares": "gmi",
        USUAL: "inception_v3 vgg_small",
    },
    "core/judges/knowledge.py": {
        USUAL: "resnet50 resnet_small",
        OTHER_WORD: "weight_decay",
    },
    "core/judges/lowres_fid.py": {
        OTHER_WORD: "inception_v3",
    },
    "core/models/embedder_kinds.py": {
        OTHER_WORD: "synthetic",
    },
    "core/models/lowres_fid.py": {
        "the networks of these judges, by their names": "fid_lomma fid_plg",
    },
    "core/audit/imported_prior.py": {
        WRITTEN: "random_face",
    },
    "orchestrator/commands/audit/sweep_file.py": {
        WRITTEN: "eigenfaces evaluator labelled synthetic unlabelled",
    },
    "orchestrator/commands/data/own_sweep.py": {
        WRITTEN: "eigenfaces evaluator labelled resnet_small unlabelled vgg_small",
    },
    "orchestrator/commands/importing/describing.py": {
        "what a card says of the user's own data": "labelled",
    },
    "orchestrator/planning/reference.py": {
        MEASURED: "eigenfaces judge_embedder judge_evaluator judge_membership judge_prior_reach judge_verification "
        "knowledge ppa resnet_small synthetic vgg_small",
    },
    "orchestrator/reading/published/comparison.py": {
        PAPER: "bido densenet121 mid ppa resnet152 resnext50 vgg16_bn",
    },
    "orchestrator/tracking/origins/provenance.py": {
        OTHER_WORD: "optuna",
    },
    "orchestrator/tracking/runs/names.py": {
        OTHER_WORD: "weight_decay",
    },
    "sweeps/attacks.py": {
        USUAL: "ppa",
    },
    "sweeps/paper_numbers.py": {
        PAPER: "bido mid",
    },
    "sweeps/paper_settings.py": {
        PAPER: "embedder evaluator inception_v3 ir50_112",
    },
    "sweeps/schema.py": {
        PAPER: "celeba facescrub imagenette",
    },
    "sweeps/search.py": {
        USUAL: "noise_aware",
    },
    "sweeps/training.py": {
        USUAL: "resnet152",
    },
    "tasks/official_reports.py": {
        "the report of the attack's own code, a word that the attack declares": "gmi",
    },
    "tasks/poison.py": {
        OTHER_WORD: "labelled",
    },
}
"""File -> why -> the names in it."""
EXCEPTIONS = {
    **{(module, name): why for module, of in REASONS.items() for why, names in of.items() for name in names.split()},
    **{(f"{module}.py", "label_smoothing"): BASELINE for module in SMOOTHED},
}


def named(node):
    """The name that a literal, or an attribute of a sweep's `judges`, is; None for anything else."""
    if isinstance(node, ast.Attribute):
        holder = node.value.attr if isinstance(node.value, ast.Attribute) else getattr(node.value, "id", None)
        return node.attr if holder == "judges" and node.attr in JUDGES else None
    found = node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None
    return None if found in OTHER_WORDS else found


_NAMES = "|".join(sorted({name for table, _ in FAMILIES.values() for name in table}))
LOOKS = re.compile(f"[\"']({_NAMES})[\"']|judges\\.")
"""What a file holds that may name a member: the others need not be parsed."""


def find_names(repository):
    """(module, name) of every literal that is a member's name, outside of its family."""
    for room in ("core", "tasks", "orchestrator", "sweeps"):
        for path in sorted((repository / room).rglob("*.py")):
            module, text = path.relative_to(repository).as_posix(), path.read_text()
            tables = [table for table, own in FAMILIES.values() if not module.startswith(own)]
            for node in ast.walk(ast.parse(text if LOOKS.search(text) else "")):
                if (name := named(node)) is not None and any(name in table for table in tables):
                    yield module, name


@pytest.fixture(scope="module")
def found(repository):
    return set(find_names(repository))


def test_a_member_is_named_in_its_family_alone(found):
    assert sorted(found - EXCEPTIONS.keys()) == [], "declare it in the member's class, or say here why not"


def test_no_exception_is_left_over(found):
    assert sorted(EXCEPTIONS.keys() - found) == []


@pytest.mark.parametrize(
    ("code", "name"),
    [
        ("x = kind == 'cma_es'", "cma_es"),
        ("x = stage.name == 'judge_gradients'", "judge_gradients"),
        ("x = settings.judges.embedder", "embedder"),
        ("x = {'facenet': 160}", "facenet"),
        ("if data['kind'] == 'celeba64': pass", "celeba64"),
    ],
)
def test_a_name_elsewhere_is_seen(code, name, tmp_path):
    (tmp_path / "sweeps").mkdir()
    (tmp_path / "sweeps/some.py").write_text(code)
    assert list(find_names(tmp_path)) == [("sweeps/some.py", name)]
