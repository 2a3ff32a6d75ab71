"""Every row of the table of priors: what it promises, whatever its kind."""

import dataclasses
import subprocess
import sys

import pytest
import torch
from pydantic import TypeAdapter, ValidationError

from smoothsweep.core.data.synthetic import synthetic_faces
from smoothsweep.core.errors import InputError
from smoothsweep.core.priors.eigenfaces import fit_eigenfaces
from smoothsweep.core.priors.kinds import PRIORS, make_settings
from smoothsweep.core.priors.registry import load_prior, save_prior
from smoothsweep.sweeps.attacker import MODELS, Prior
from smoothsweep.tasks.context import TaskContext
from smoothsweep.tasks.files import save_tensors
from smoothsweep.tasks.prior import fit_prior
from tests.nonsense import nonsense_for
from tests.tiny_random_face import imported_folder

EXAMPLES = {
    "eigenfaces": {"components": 5},
    "shipped": {},
    "folder": {"path": "mine"},
    "random_face": {"path": "faces", "resolution": 64},
    "stylegan2": {
        "z_dim": 8,
        "w_dim": 8,
        "mapping_layers": 1,
        "channel_base": 64,
        "channel_max": 8,
        "kimg": 0.016,
        "batch_size": 8,
    },
}
WRONG = {
    "eigenfaces": [{"components": 0}, {"components": 2.5}, {"seed": -1}, {"path": "mine"}],
    "shipped": [{"name": "another"}, {"seed": 1}],
    "random_face": [
        {"path": ""},
        {"resolution": 512},
        {"resolution": "128"},
        {"crop": 3},
    ],
    "folder": [{"path": ""}, {"path": "a\0b"}, {"path": 3}, {}],
    "stylegan2": [{"batch_size": 3}, {"kimg": 0}, {"augmentation": "heavy"}, {"r1_gamma": -1}, {"components": 5}],
}


@pytest.fixture(scope="module")
def faces():
    return synthetic_faces(population="public", identities=24, per_identity=1, size=16, seed=0).images


def settings_of(kind, folder, faces):
    values = {**EXAMPLES[kind]}
    if kind == "random_face":
        values["path"] = str(imported_folder(folder / "faces"))
    elif "path" in values:
        save_prior(fit_eigenfaces(faces, components=4, seed=0), folder / "mine")
        values["path"] = str(folder / "mine")
    return make_settings(kind, **values)


def made(kind, folder, faces):
    """As its stage makes it, into a folder that says so."""
    public, out, work = (folder / name for name in ("public", "out", "work"))
    for place in (public, out, work):
        place.mkdir(parents=True)
    save_tensors(public / "images.safetensors", {"images": faces})
    inputs = {"public": public} if PRIORS[kind].needs_public else {}
    config = {"kind": kind, **dataclasses.asdict(settings_of(kind, folder, faces))}
    metrics = fit_prior(config, inputs, out, TaskContext(work=work))
    return load_prior(out), metrics


def test_every_kind_has_an_example_and_mistakes():
    assert set(EXAMPLES) == set(WRONG) == set(PRIORS) == set(MODELS)


@pytest.mark.parametrize("kind", PRIORS)
def test_a_prior_draws_finite_images_and_the_same_ones_again(kind, tmp_path, faces):
    (first, metrics), (again, _) = (made(kind, tmp_path / name, faces) for name in "ab")
    assert metrics == {"resolution": first.resolution, "z_dim": first.z_dim}
    z = torch.from_numpy(first.sample_z(3, 1)).float()
    w = first.map(z)
    assert w.shape == (3, first.num_ws, first.w_dim)
    images = first.synthesize(w)
    assert images.shape == (3, 3, first.resolution, first.resolution) and images.isfinite().all()
    assert images.std(dim=0).max() > 0  # they differ
    assert torch.equal(images, again.synthesize(again.map(z)))
    assert not any(value.requires_grad for value in first.parameters())


@pytest.mark.parametrize("kind", PRIORS)
def test_only_a_prior_that_is_there_already_names_its_files(kind, tmp_path, faces):
    files = settings_of(kind, tmp_path, faces).files
    assert (files is None) == PRIORS[kind].needs_public
    assert files is None or (files.weights.is_file() and files.description.is_file())


@pytest.mark.parametrize(("kind", "wrong"), [(kind, wrong) for kind in WRONG for wrong in WRONG[kind]])
def test_a_sweep_file_with_a_wrong_value_is_refused(kind, wrong):
    given = {"kind": kind, **(EXAMPLES[kind] if wrong else {}), **wrong}
    with pytest.raises(ValidationError):
        TypeAdapter(Prior).validate_python(given)
    with pytest.raises(InputError, match=rf"^prior( {kind}: |\.{next(iter(wrong), '')}: expected )"):
        make_settings(kind, **({**EXAMPLES[kind], **wrong} if wrong else {}))


@pytest.mark.parametrize("kind", PRIORS)
def test_every_field_refuses_a_value_of_another_type_under_its_own_name(kind):
    for field, value in nonsense_for(PRIORS[kind].settings):
        with pytest.raises(InputError) as refusal:
            make_settings(kind, **{**EXAMPLES[kind], field: value})
        assert str(refusal.value).startswith(f"prior.{field}: expected "), (value, str(refusal.value))


def test_an_unknown_kind_or_parameter_is_refused_in_core_too():
    with pytest.raises(InputError, match=r"prior.kind: expected one of eigenfaces, .* got 'gan'"):
        make_settings("gan")
    with pytest.raises(InputError, match="prior shipped: does not read 'seed'; it reads name"):
        make_settings("shipped", seed=1)


@pytest.mark.parametrize("kind", PRIORS)
def test_the_schema_has_the_fields_and_defaults_of_the_settings(kind):
    settings = PRIORS[kind].settings
    said = [field for field in dataclasses.fields(settings) if field.name not in settings.unsaid]
    declared = {field.name: field.default for field in said}
    model = MODELS[kind].model_fields
    assert set(model) == {"kind", *declared}
    for name, default in declared.items():
        assert model[name].is_required() if default is dataclasses.MISSING else model[name].default == default


def test_reading_the_table_loads_no_torch():
    code = "import sys, core.priors.kinds; print(*({'torch', 'pydantic', 'ray'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""
