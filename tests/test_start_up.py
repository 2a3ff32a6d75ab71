"""What our modules bring in when they are imported: every worker of Ray and every command pays for it."""

import json
import subprocess
import sys

import pytest
import torchvision

from smoothsweep.core.models.classifiers import ARCHITECTURES
from smoothsweep.core.models.weight_files import WEIGHT_FILES

# Every module of the product is imported; those that define their networks as torchvision's classes are not.
EVERYTHING = """
import importlib, json, sys
for name in sys.argv[1:]:
    importlib.import_module(name)
print(json.dumps(sorted(sys.modules)))
"""
AT_NEED = {"smoothsweep.core.models.fid_network"}
# torchvision and torch's compiler take two seconds, scikit-learn one; one defense, program or report needs the others
NOT_AT_IMPORT = (
    "torchvision",
    "sklearn",
    "torch._dynamo",
    "torch._inductor",
    "facenet_pytorch",
    "opacus",
    "art",
    "cma",
    "onnx",
    "onnxruntime",
    "onnx2torch",
    "timm",
    "transformers",
    "torch_fidelity",
)


@pytest.fixture(scope="module")
def modules(repository):
    """Of the four packages, as `smoothsweep.core.files`."""
    found = []
    for package in ("core", "sweeps", "tasks", "orchestrator"):
        paths = [path.relative_to(repository).with_suffix("") for path in sorted((repository / package).rglob("*.py"))]
        found += [".".join(("smoothsweep", *path.parts)).removesuffix(".__init__") for path in paths]
    return [name for name in found if not name.endswith(".__main__")]


def test_no_module_brings_in_what_few_need(modules, repository):
    assert len(modules) > 150 and set(modules) >= AT_NEED
    asked = [name for name in modules if name not in AT_NEED]
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", EVERYTHING, *asked], capture_output=True, text=True, cwd=repository
    )
    assert done.returncode == 0, done.stderr
    loaded = set(json.loads(done.stdout.splitlines()[-1]))
    assert loaded >= {*asked, "torch", "ray", "mlflow"}, "the modules were imported"
    assert loaded & set(NOT_AT_IMPORT) == set(), "import these in the function that needs them"


def test_reading_a_sweep_file_brings_in_nothing_that_computes(repository):
    code = "import sys, smoothsweep.sweeps.load, smoothsweep.sweeps.schema; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=repository)
    loaded = set(done.stdout.split())
    assert "smoothsweep.sweeps.search" in loaded and not loaded & {
        "scipy",
        "torch",
        "pandas",
        "pyarrow",
        "ray",
        "mlflow",
    }


OF_OTHER_VERSIONS = {"efficientnet_b1": "IMAGENET1K_V1"}  # LOMMA's
OF_OTHER_NAMES = {"resnext50": "resnext50_32x4d"}


@pytest.mark.parametrize("name", sorted(ARCHITECTURES.keys() & WEIGHT_FILES.keys()))
def test_files_of_weights_are_those_of_torchvisions_table(name):
    table = torchvision.models.get_model_weights(OF_OTHER_NAMES.get(name, name))
    entry = table[OF_OTHER_VERSIONS.get(name, "DEFAULT")]
    assert WEIGHT_FILES[name].url == entry.url
    assert WEIGHT_FILES[name].mebibytes == entry.meta["_file_size"]


def test_the_general_judges_file_is_that_of_torchvisions_table():
    entry = torchvision.models.ViT_B_16_Weights.IMAGENET1K_SWAG_LINEAR_V1
    assert (WEIGHT_FILES["swag_vit_b_16"].url, WEIGHT_FILES["swag_vit_b_16"].mebibytes) == (
        entry.url,
        entry.meta["_file_size"],
    )
