"""Small trees in the official layouts of the paper's data sets, with generated pictures."""

import io
from pathlib import Path

import numpy as np
import scipy.io
import torch
from PIL import Image
from safetensors.torch import load_file

from smoothsweep.core.data.decoding import strict_pillow

# Creation code -> group and folder of the tree behind the golden orders.
GOLDEN_PEOPLE = (
    ("actors", "Cy_Roe", 7),
    ("actors", "Aa_Bee", 12),
    ("actors", "J.K._Lo", 6),
    ("actresses", "Zed_Ann", 8),
    ("actresses", "Olivia_d'Abo", 11),
)


def pixels(seed, width=8, height=8):
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)


def encoded(image, kind="PNG", **options):
    if isinstance(image, np.ndarray):
        image = Image.fromarray(image)
    buffer = io.BytesIO()
    image.save(buffer, kind, **options)
    return buffer.getvalue()


def put(file, content):
    file.parent.mkdir(parents=True, exist_ok=True)
    if isinstance(content, str):
        content = content.encode()
    file.write_bytes(content)
    return file


def facescrub(root, people=GOLDEN_PEOPLE, *, size=8):
    """people: (group, folder, how many pictures)."""
    for code, (group, name, count) in enumerate(people):
        for i in range(count):
            put(root / group / "faces" / name / f"{i}.png", encoded(pixels(1000 * code + i, size, size)))
    return root


def celeba(root, identities, *, folder="img_align_celeba", width=8, height=8, suffix="png"):
    """Lists for all of `identities` (file 000001.jpg is identities[0]) and a picture for each."""
    names = [f"{i:06d}.jpg" for i in range(1, len(identities) + 1)]
    put(root / "identity_CelebA.txt", "".join(f"{n} {i}\n" for n, i in zip(names, identities, strict=True)))
    put(root / "list_eval_partition.txt", "".join(f"{n} {k % 3}\n" for k, n in enumerate(names)))
    for k, name in enumerate(names):
        put(root / folder / name.replace("jpg", suffix), encoded(pixels(k, width, height)))
    return root


def landmark_list(root, landmarks, name="list_landmarks_celeba.txt"):
    """CelebA's form: a count, the names of the columns, then file and ten numbers. landmarks: [n, 5, 2]."""
    rows = [f"{i:06d}.jpg {' '.join(str(v) for v in points.reshape(-1))}" for i, points in enumerate(landmarks, 1)]
    points = ("lefteye", "righteye", "nose", "leftmouth", "rightmouth")
    columns = " ".join(f"{point}_{axis}" for point in points for axis in "xy")
    return put(root / name, "\n".join([str(len(rows)), columns, *rows]) + "\n")


def celeba64_lists(root, train, test, names=("celeba_trainset.txt", "celeba_testset.txt")):
    """train, test: (file, label) pairs."""
    for name, rows in zip(names, (train, test), strict=True):
        put(root / name, "".join(f"{file} {label}\n" for file, label in rows))
    return root


def matlab_list(file, pictures):
    """pictures: (folder/file, label from 1)."""
    cells = np.empty((len(pictures), 1), dtype=object)
    cells[:, 0] = [name for name, _ in pictures]
    scipy.io.savemat(file, {"file_list": cells, "labels": np.array([[label] for _, label in pictures], dtype=np.uint8)})


def stanford_dogs(root, breeds=("n1-Chihuahua", "n2-toy-poodle"), *, train=4, test=3, width=12, height=8):
    """Per breed `train` + `test` pictures, each with two boxes, the first of which is 2 1 8 7."""
    lists = {"train_list.mat": [], "test_list.mat": []}
    for label, folder in enumerate(breeds, start=1):
        for i in range(train + test):
            name = f"{folder}/{folder.split('-')[0]}_{i}.jpg"
            put(root / "Images" / name, encoded(pixels(100 * label + i, width, height)))
            put(root / "Annotation" / name.removesuffix(".jpg"), annotation((2, 1, 8, 7), (0, 0, 3, 3)))
            lists["train_list.mat" if i < train else "test_list.mat"].append((name, label))
    for file, pictures in lists.items():
        matlab_list(root / file, pictures)
    return root


def annotation(*boxes):
    corners = ("xmin", "ymin", "xmax", "ymax")
    objects = "".join(
        f"<object><bndbox>{''.join(f'<{c}>{v}</{c}>' for c, v in zip(corners, box, strict=True))}</bndbox></object>"
        for box in boxes
    )
    return f"<annotation>{objects}</annotation>"


def imagenette(root: Path, synsets=("n01440764", "n02102040", "n02979186"), *, train=3, val=2, width=10, height=8):
    for k, synset in enumerate(synsets):
        for part, count in (("train", train), ("val", val)):
            for i in range(count):
                name = f"{synset}_{i}.JPEG"
                put(root / part / synset / name, encoded(pixels(50 * k + i, width, height), "JPEG"))
    return root


def written(folder, part):
    tensors = load_file(folder / f"{part}.safetensors")
    assert set(tensors) == {"images", "labels"}
    assert tensors["images"].dtype == torch.uint8 and tensors["labels"].dtype == torch.int64
    return tensors["images"], tensors["labels"]


def picture(listing, index):
    with strict_pillow():
        return listing.decode(index, listing.read(index))
