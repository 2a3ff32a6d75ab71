"""The commands that bring things in: official weights, published files and priors, data sets and own pictures."""

import hashlib
import json

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import load_file
from torchvision.models import resnet18

from smoothsweep.core.errors import InputError
from smoothsweep.core.models.classifiers import build_classifier
from smoothsweep.core.models.weight_files import find_file, weight_folders
from smoothsweep.core.priors import random_face
from smoothsweep.core.priors.random_face import WHEEL, PublishedFile, import_package
from smoothsweep.core.priors.registry import load_discriminator, load_prior
from smoothsweep.core.priors.settings import StyleGAN2Config
from smoothsweep.orchestrator.cli import main
from smoothsweep.orchestrator.commands.audit.sweep_file import imported_prior
from smoothsweep.sweeps.imported import ImportedClassifier
from smoothsweep.sweeps.load import load_sweep
from smoothsweep.tasks.training import restored_classifier
from tests.foreign_classifier import PEOPLE, SIDE
from tests.labelled_files import encoded, folders, pixels, regular_folders, scene
from tests.official_pickle import write_official_pickle
from tests.orchestrator.commands.owned_model import IMAGENET
from tests.published_trees import facescrub
from tests.tiny_random_face import graph_of, imported_folder, package_numbers

TINY = StyleGAN2Config(resolution=16, z_dim=8, w_dim=8, mapping_layers=1, channel_base=128, channel_max=8)
ACTORS = (("actors", "A_B", 12), ("actresses", "C_D", 12), ("actresses", "E_F", 12))


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    """As the official trainer writes it."""
    path = tmp_path_factory.mktemp("checkpoint") / "Classifier_9000.pth"
    torch.manual_seed(0)
    state = {f"model._orig_mod.{key}": value for key, value in resnet18(num_classes=3).state_dict().items()}
    torch.save({"epoch": 100, "model_state_dict": state, "optimizer_state_dict": {}}, path)
    return path


def words(value):
    """A path is one word, whatever is in it."""
    return value.split() if isinstance(value, str) else [str(value)]


def target_arguments(checkpoint, out, **changes):
    options = {"architecture": "resnet18", "classes": 3, "image_size": 32, "out": out, **changes}
    given = {f"--{key.replace('_', '-')}": value for key, value in options.items() if value is not None}
    flags = [part for flag, value in given.items() for part in (flag, *words(value))]
    return ["import", "target", str(checkpoint), *flags]


def test_a_pickle_becomes_a_prior_that_a_sweep_can_name(tmp_path, capsys):
    write_official_pickle(tmp_path / "ffhq.pkl", TINY)
    assert main(["import", "prior", str(tmp_path / "ffhq.pkl"), "--store", str(tmp_path / "store")]) == 0
    folder = tmp_path / "store" / "imported" / "priors" / "ffhq"
    said = capsys.readouterr().out
    assert "non-commercial" in said and f"prior: {{kind: folder, path: {folder}}}" in said
    assert load_prior(folder).config == load_discriminator(folder).config == TINY


def test_a_pickle_that_is_none_is_one_line_and_leaves_nothing(tmp_path, capsys):
    (tmp_path / "ffhq.pkl").write_text("<!DOCTYPE html><title>404</title>")
    assert main(["import", "prior", str(tmp_path / "ffhq.pkl"), "--out", str(tmp_path / "prior")]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and "ffhq.pkl" in error and not (tmp_path / "prior").exists()


def test_a_checkpoint_becomes_a_target_with_its_card(tmp_path, checkpoint, capsys):
    out = tmp_path / "target"
    tree = facescrub(tmp_path / "facescrub", ACTORS, size=40)
    assert main([*target_arguments(checkpoint, out, alpha=-0.05)]) == 0
    card = json.loads((out / "target.json").read_text())
    assert (card["defense"]["kind"], card["defense"]["alpha"]) == ("label_smoothing", -0.05)
    assert card["source"]["epoch"] == 100
    assert (card["version"], card["image_size"], card["mean"], card["class_names"]) == (4, 32, [0.5] * 3, None)
    assert load_file(out / "weights.safetensors")["head.weight"].shape == (3, 512)
    assert "recipe: {imported:" in capsys.readouterr().out
    assert main(target_arguments(checkpoint, out)) == 2  # never over an earlier import
    assert "expected a new folder" in capsys.readouterr().err
    assert main(["data", "check", str(tree), "--as", "facescrub", "--classes", "3"]) == 1
    assert "identities: 3, recorded are 530" in capsys.readouterr().out


@pytest.mark.parametrize(("flags", "mean", "std"), [([], 0.0, 1.0), (["--input-range", "-1", "1"], 0.5, 0.5)])
def test_a_low_resolution_checkpoint_is_shown_pictures_in_0_to_1_unless_it_says_otherwise(tmp_path, flags, mean, std):
    backbone = build_classifier("efficientnet_b0", 3, protocol="paper", seed=1)
    named = {
        key.removeprefix("backbone.").replace("head.", "fc_layer."): value
        for key, value in backbone.state_dict().items()
    }
    torch.save({"state_dict": {f"module.{key}": value for key, value in named.items()}}, tmp_path / "student.tar")
    out = tmp_path / "target"
    assert main([*target_arguments(tmp_path / "student.tar", out, architecture="efficientnet_b0"), *flags]) == 0
    card = json.loads((out / "target.json").read_text())
    assert (card["mean"], card["std"]) == ([mean] * 3, [std] * 3)
    reading = ImportedClassifier(imported=str(out)).checked.reading
    weights = load_file(out / "weights.safetensors")
    read = restored_classifier({**reading, "protocol": "paper", "seed": 0}, weights, where="import").eval()
    images = torch.rand(1, 3, 32, 32) * 2 - 1
    with torch.no_grad():
        unit = (images + 1) / 2 if std == 1.0 else images
        torch.testing.assert_close(read(images), backbone.eval().head(backbone.backbone(unit)))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"image_size": None}, "--image-size: expected the side in pixels"),
        ({"classes": 4}, "expected 4 classes, got 3"),
        ({"classes": 3, "data": "facescrub"}, "--classes: expected 530 for facescrub, got 3"),
        ({"data_path": "x"}, "--data-path: expected only with --data"),
        ({"architecture": "resnet34"}, "resnet34"),
        ({"architecture": "resnet19"}, "expected one of"),
        ({"image_size": 8}, "at least 32 pixels, got 8"),
        ({"image_size": 0}, "at least 32 pixels, got 0"),
        ({"image_size": 10**9}, "image_size: expected a whole number of at most 2048"),
        ({"classes": 10**9}, "num_classes: expected a whole number of at most 100000"),
        ({"classes": -1}, "num_classes: expected a whole number of at least 2"),
        ({"alpha": "nan"}, "defense.alpha: expected a finite number"),
        ({"alpha": 7}, "defense.alpha: expected a number of at most 1"),
        ({"test_acc": 81.8}, "stated_acc: expected a number of at most 1"),
        ({"data": "no/such/place"}, "--data no/such/place: expected a folder, a Parquet file or one of"),
        ({"class_names": "no-such-file"}, "--class-names no-such-file: expected a name per line"),
        ({"transform_input": "true"}, "transform_input"),
        ({"mean": "0.5 0.5 0.5"}, "--mean, --std: expected both or neither"),
        ({"input_range": "1 0"}, "input range: expected two numbers, the lower one first"),
        ({"input_range": "nan 1"}, "input range: expected two numbers"),
        ({"mean": "0 0 0", "std": "0 1 1"}, "std: expected three numbers > 0"),
        ({"mean": "0 0 nan", "std": "1 1 1"}, "mean: expected three numbers"),
        ({"input_range": "0 1", "mean": "0 0 0", "std": "1 1 1"}, "got both"),
    ],
)
def test_a_checkpoint_that_does_not_fit_is_one_line(tmp_path, checkpoint, capsys, changes, words):
    assert main(target_arguments(checkpoint, tmp_path / "target", **changes)) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and words in error
    assert not (tmp_path / "target").exists() and not list(tmp_path.glob(".target*"))


def test_staging_says_what_could_not_be_had_and_where_to_put_it(tmp_path, capsys, monkeypatch):
    from smoothsweep.core.models import weight_files

    def unreachable(*_, **__):
        raise OSError("no network here")

    monkeypatch.setattr(weight_files.urllib.request, "urlopen", unreachable)
    monkeypatch.setenv("TORCH_HOME", str(tmp_path / "hub"))
    assert main(["weights", "stage", "sweeps/table1_facescrub.yaml", "--dir", str(tmp_path / "w")]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[:2] for line in lines] == [
        ["MISS", name] for name in ("resnet152", "inception_v3", "resnet50", "facenet", "fid_inception")
    ]
    assert all("put it there" in line and "no network here" in line for line in lines)
    assert not list((tmp_path / "w").glob("*")) if (tmp_path / "w").exists() else True


@pytest.mark.parametrize(("stated", "code"), [(None, 0), ("0.5", 0), ("0.97", 2), ("1.5", 2)])
def test_a_stated_accuracy_is_held_against_real_images(owned, tmp_path, capsys, stated, code):
    """A classifier that has forgotten two of its six people is taken as it is, unless more is stated of it."""
    root, people, _ = owned
    state = torch.load(root / "own.pth", weights_only=True)
    state["fc.bias"][[1, 4]] -= 1000
    torch.save(state, tmp_path / "blunt.pth")
    given = ["--architecture", "resnet18", "--classes", str(len(PEOPLE)), "--image-size", str(SIDE), *IMAGENET]
    command = ["import", "target", str(tmp_path / "blunt.pth"), *given, "--data", str(people)]
    command += ["--test-acc", stated] if stated else []
    assert main([*command, "--class-names", str(alphabetical(tmp_path)), "--out", str(tmp_path / "out")]) == code
    said = capsys.readouterr().err
    assert (tmp_path / "out").exists() == (code == 0) and said.count("\n") == (code != 0)
    if code == 0:
        card = ImportedClassifier(imported=str(tmp_path / "out")).checked
        assert card.stated_acc == (None if stated is None else pytest.approx(0.5))
    elif stated == "0.97":
        assert "its card states 97.0%" in said


def test_an_order_of_classes_that_fits_is_written_to_a_file_which_is_taken(owned, tmp_path, capsys):
    """As it is, and as JSON that numbers the names, either way round."""
    root, people, _ = owned
    given = ["--architecture", "resnet18", "--classes", str(len(PEOPLE)), "--image-size", str(SIDE), *IMAGENET]
    state, outputs = torch.load(root / "own.pth", weights_only=True), [2, 0, 1, 3, 5, 4]
    state |= {key: state[key][outputs] for key in ("fc.weight", "fc.bias")}
    torch.save(state, tmp_path / "turned.pth")
    command = ["import", "target", str(tmp_path / "turned.pth"), *given, "--data", str(people), "--out"]
    assert main([*command, str(tmp_path / "out")]) == 2
    order = tmp_path / "out.class-names.txt"
    assert f"--class-names {order}" in capsys.readouterr().err and not (tmp_path / "out").exists()
    names = order.read_text().splitlines()
    assert names == [sorted(PEOPLE)[number] for number in outputs]
    (tmp_path / "class_to_idx.json").write_text(json.dumps({name: number for number, name in enumerate(names)}))
    (tmp_path / "id2label.json").write_text(json.dumps(dict(enumerate(names))))
    for file in (order, tmp_path / "class_to_idx.json", tmp_path / "id2label.json"):
        assert main([*command, str(tmp_path / file.stem), "--class-names", str(file)]) == 0
    (tmp_path / "twice.json").write_text(json.dumps(dict.fromkeys(names, 0)))
    assert main([*command, str(tmp_path / "twice"), "--class-names", str(tmp_path / "twice.json")]) == 2


def alphabetical(folder):
    (folder / "names.txt").write_text("\n".join(sorted(PEOPLE)))
    return folder / "names.txt"


CHANNELS = (4, 8, 4, 4, 4)


@pytest.fixture(scope="module")
def files():
    graphs = zip(("MappingNetwork", "SynthesisNetwork"), map(graph_of, package_numbers(CHANNELS)), strict=True)
    return {f"{name}.{kind}": part for name, graph in graphs for kind, part in zip(("xml", "bin"), graph, strict=True)}


@pytest.fixture
def folder(tmp_path, monkeypatch, files):
    """The tiny files in a package's folder; their checksums count as the published ones."""
    published = {
        name: PublishedFile(size=len(content), sha256=hashlib.sha256(content).hexdigest())
        for name, content in files.items()
    }
    monkeypatch.setattr(random_face, "FILES", published)
    place = tmp_path / "random_face"
    (place / "data").mkdir(parents=True)
    for name, content in files.items():
        (place / "data" / name).write_bytes(content)
    return place


def imported(place, out, *more):
    return main(["import", "prior", "random-face", str(place), "--out", str(out), *more])


def test_the_package_becomes_priors_with_their_licence_and_stays(tmp_path, folder, capsys):
    out = tmp_path / "out"
    assert imported(folder, out, "--resolution", "64", "--images", "26") == 0
    said = capsys.readouterr().out
    assert "non-commercial" in said and "dB from the whole image" in said
    assert load_prior(out / "64").resolution == 64 and load_prior(out / "128").resolution == 128
    facts = json.loads((out / "64" / "import.json").read_text())
    assert "non-commercial" in facts["licence"] and facts["read_out"]["images"] == 26
    assert facts["read_out"]["psnr_db"] >= facts["read_out"]["psnr_db_closed_form"]
    before = {path: path.stat().st_mtime_ns for path in out.rglob("*")}
    assert imported(folder, out, "--resolution", "64") == 0
    assert before == {path: path.stat().st_mtime_ns for path in out.rglob("*")}


def test_the_numbers_come_in_under_our_names(folder):
    network, (mapping, synthesis) = import_package(folder), package_numbers(CHANNELS)
    assert network.config.channels == CHANNELS and network.resolution == 128
    state = {name: value.numpy() for name, value in network.state_dict().items()}
    assert (state["mapping.layers.1.weight"] == mapping["177"]).all()
    assert (state["first.constant"] == synthesis["m.input.input"]).all()
    gained = synthesis["m.layers.1.conv2.conv.modulation.weight"] * synthesis["Constant_217"].item()
    np.testing.assert_allclose(state["stages.1.conv2.style.weight"], gained, rtol=1e-6)
    noise = synthesis["1601"][0].transpose(1, 2, 0)
    assert (state["stages.1.conv1.noise"] == noise).all()
    order = [0, 1, 2, 3, 6, 9, 4, 7, 10, 5, 8, 11]  # averages of three channels, then each kind of detail of them
    assert (state["to_image.bias"] == synthesis["m.layers.3.to_img.bias"].ravel()[order]).all()


@pytest.mark.skipif(find_file(WHEEL, weight_folders()) is None, reason="the wheel of random-face is not staged")
def test_the_published_package_gives_the_known_numbers():
    network, total = import_package(find_file(WHEEL, weight_folders())), hashlib.sha256()
    for name, value in network.state_dict().items():
        if name != "mapping.mean":
            total.update(name.encode() + value.numpy().tobytes())
    assert total.hexdigest() == "f349f97e2fb5ab0aee92d5d0d7a9b4906795eb8654a84d5f4e098843557e88db"


@pytest.mark.parametrize(
    ("harm", "expected"),
    [
        (
            lambda data: (data / "SynthesisNetwork.bin").write_bytes(
                b"\1" + (data / "SynthesisNetwork.bin").read_bytes()[1:]
            ),
            "another version",
        ),
        (
            lambda data: (data / "SynthesisNetwork.bin").write_bytes((data / "SynthesisNetwork.bin").read_bytes() * 2),
            "MiB",
        ),
        (lambda data: (data / "MappingNetwork.bin").unlink(), "MappingNetwork.bin: cannot be read"),
        (lambda data: (data / "SynthesisNetwork.xml").unlink(), "expected a folder with"),
    ],
)
def test_another_package_is_one_line_and_nothing_is_written(tmp_path, folder, capsys, harm, expected):
    harm(folder / "data")
    assert imported(folder, tmp_path / "out") == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and expected in error and not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["random-face"], "pip download --no-deps random-face==2021.7.21.1"),
        (["random-face", "nowhere.whl"], "Apache-2.0"),
        (["random-face", "--images", "3"], "--images: expected"),
        (["random-face", "--judge", "nobody=x"], "--judge: expected NAME=FILE"),
        (["ffhq.pkl", "--images", "30"], "images: expected it with random-face only"),
    ],
)
def test_what_cannot_be_imported_is_one_line(tmp_path, monkeypatch, capsys, arguments, expected):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(random_face, "weight_folders", list)
    monkeypatch.setattr(random_face, "PACKAGE", "no_such_package_here")
    assert main(["import", "prior", *arguments, "--out", "out"]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and expected in error and not (tmp_path / "out").exists()


def test_an_audit_takes_the_least_resolution_that_the_model_sees(tmp_path):
    for resolution in (64, 128):
        imported_folder(tmp_path, resolution)
    eyes = (19.0, 20.0, 45.0, 20.0, 64.0)
    assert imported_prior(tmp_path, eyes, 64)["resolution"] == 128  # of 64 pixels the frame would show 40
    assert imported_prior(tmp_path, None, 64)["resolution"] == 64
    assert imported_prior(tmp_path, None, 1000)["resolution"] == 128
    assert imported_prior(tmp_path / "64", None, 64) == {"kind": "folder", "path": str(tmp_path / "64")}


@pytest.mark.parametrize(
    ("place", "eyes", "expected"),
    [
        ("nowhere", None, "a folder that `smoothsweep import prior` wrote"),
        ("64", (19.0, 20.0, 45.0, 20.0, 64.0), "--eyes: expected none"),
        (".", (19.0, 20.0, 45.0, 20.0, 64.5), "whole pixels"),
        (".", (30.0, 20.0, 34.0, 20.0, 64.0), "more around the face"),
    ],
)
def test_a_prior_that_an_audit_cannot_use_is_refused(tmp_path, place, eyes, expected):
    imported_folder(tmp_path)
    with pytest.raises(InputError, match=expected):
        imported_prior(tmp_path / place, eyes, 64)


def others_in(root, *more):
    return folders(root, {f"{i}.png": encoded(pixels(900 + i)) for i in range(3)} | dict(more))


def test_own_data_that_are_fine_exit_with_0(tmp_path, capsys):
    own, others = regular_folders(tmp_path / "own"), others_in(tmp_path / "public")
    assert main(["data", "check", str(own), "--public", str(others)]) == 0
    shown = capsys.readouterr()
    assert "classes: 2; 8 training and 2 test images" in shown.out and shown.err == ""


def test_a_private_picture_among_the_public_ones_exits_with_2_and_its_names(tmp_path, capsys):
    own = regular_folders(tmp_path / "own")
    others = others_in(tmp_path / "public", ("same.bmp", encoded(pixels(12), "BMP")))
    assert main(["data", "check", str(own), "--public", str(others)]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and said.startswith(f"smoothsweep: --public {others}: expected none of the pictures")
    assert said.endswith("got 1 of them: bob/2.png = same.bmp\n")


def test_bits_are_said_and_taken(tmp_path, capsys):
    """Deep pictures that use 12 bits: a fault with the largest value until `--bits` says so; `init` writes it down."""
    values = np.arange(64, dtype=np.uint16).reshape(8, 8) * 65
    layout = {
        f"{who}/{i}.png": encoded(Image.fromarray(values + 9 * k + i)) for k, who in enumerate("ab") for i in range(4)
    }
    own = folders(tmp_path / "own", layout)
    assert main(["data", "check", str(own)]) == 1
    assert "4107" in capsys.readouterr().out
    assert main(["data", "check", str(own), "--bits", "14"]) == 0
    assert main(["init", "--data", str(own), "--out", str(tmp_path / "s.yaml"), "--bits", "14"]) == 0
    assert load_sweep(tmp_path / "s.yaml").sweep.data.bits == 14


def test_what_loading_would_refuse_exits_with_1(tmp_path, capsys):
    own = regular_folders(tmp_path / "own")
    (own / "ann" / "0.png").write_bytes(b"no picture")
    assert main(["data", "check", str(own)]) == 1
    assert "unreadable: ann/0.png" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("more", "line"),
    [
        (["--public", "other", "--as", "celeba"], "--public other: expected none beside --as celeba"),
        (["--bits", "12", "--as", "celeba"], "--bits 12: expected none beside --as celeba"),
        (["--judge", "nobody"], "--judge: expected one of"),
        (["--classes", "3"], "--classes 3: expected --as beside it, got none"),
        (["--pictures", "crops"], "--pictures crops: expected --as beside it, got none"),
        ([], "expected a Parquet file or a folder, got nothing at this path"),
        (["--public", "nowhere"], "expected a Parquet file or a folder, got nothing at this path"),
    ],
)
def test_wrong_questions_are_one_line(tmp_path, capsys, more, line):
    own = regular_folders(tmp_path / "own") if "nowhere" in more else tmp_path / "nothing"
    assert main(["data", "check", str(own), *more]) == 2
    said = capsys.readouterr().err
    assert line in said and said.count("\n") == 1


def written(capsys, out, *more):
    assert main(["init", "--out", str(out), *map(str, more)]) == 0
    capsys.readouterr()
    return load_sweep(out).sweep


def planned(capsys, out, tmp_path):
    assert main(["plan", str(out), "--store", str(tmp_path / "store"), "--json"]) == 0
    return json.loads(capsys.readouterr().out)


@pytest.fixture
def public(tmp_path):
    return folders(tmp_path / "public", {f"{i}.png": encoded(scene(300 + i, side=40)) for i in range(30)})


def test_sizes_and_counts_are_those_of_the_data_and_plan_takes_the_file(tmp_path, public, capsys):
    own = folders(
        tmp_path / "our: #people",
        {f"{who}/{i}.png": encoded(scene(10 * who + i, side=90)) for who in range(3) for i in range(4)},
    )
    sweep = written(capsys, tmp_path / "own.yaml", "--data", own, "--public", public)
    assert sweep.data.path == str(own) and sweep.public.path == str(public)
    assert (sweep.data.size, sweep.public.size) == (32, 32), "public images have 40 pixels"
    assert sweep.data.largest_classes is None and sweep.public.limit is None
    assert sweep.prior.components == 15 and sweep.recipe.batch_size == 2
    text = (tmp_path / "own.yaml").read_text()
    assert "# Your images: 3 classes with 9 training images, 3 to 3 of each." in text
    assert planned(capsys, tmp_path / "own.yaml", tmp_path)["trials"] == 24


def test_images_that_are_no_faces_get_another_judge_and_other_words(tmp_path, capsys):
    sweep = written(capsys, tmp_path / "own.yaml", "--no-faces")
    assert set(sweep.judges.built) == {"evaluator", "general"}
    text = (tmp_path / "own.yaml").read_text()
    words = text.lower().replace(
        "kind: eigenfaces", ""
    )  # the method's name in the literature, whatever the images show
    assert not [word for word in ("people", "person", "face", "embedder") if word in words], text
    assert planned(capsys, tmp_path / "own.yaml", tmp_path)["trials"] == 24


@pytest.mark.parametrize(
    ("harm", "line"),
    [
        ("there", "expected a new file"),
        ("folder", "expected a file in a folder that is there"),
        ("bare", "expected --data beside it, got none"),
        ("broken", "got 1 faults (smoothsweep data check lists them): unreadable: ann/0.png"),
        ("shared", "got 1 of them: ann/1.png = copy.png"),
        ("nothing", "got nothing at this path"),
    ],
)
def test_what_is_wrong_is_one_line_and_nothing_is_written(tmp_path, public, capsys, harm, line):
    own, out = regular_folders(tmp_path / "own"), tmp_path / ("no/own.yaml" if harm == "folder" else "own.yaml")
    given = ["--data", own, "--public", public]
    if harm == "there":
        out.write_text("mine")
    elif harm == "bare":
        given = ["--public", public]
    elif harm == "broken":
        (own / "ann" / "0.png").write_bytes(b"x")
    elif harm == "shared":
        (public / "copy.png").write_bytes((own / "ann" / "1.png").read_bytes())
    elif harm == "nothing":
        given = ["--data", tmp_path / "nowhere"]
    assert main(["init", "--out", str(out), *map(str, given)]) == 2
    said = capsys.readouterr().err
    assert line in said and said.count("\n") == 1
    assert out.read_text() == "mine" if harm == "there" else not out.exists()
