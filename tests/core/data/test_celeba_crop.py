import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from smoothsweep.core.data.celeba import STANDARD_5, align_crop, aligned_cut, crop_target, similarity
from smoothsweep.core.data.decoding import UnreadablePicture

TARGET = crop_target(STANDARD_5)
angles = st.floats(-np.pi, np.pi)
scales = st.floats(0.3, 3.0)
shifts = st.floats(-200, 200)


def turned(points, angle, scale, shift):
    c, s = scale * np.cos(angle), scale * np.sin(angle)
    return points @ np.array([[c, s], [-s, c]]) + shift


def spots(places, width, height, radius=3.0):
    """A black picture with a soft white spot at each place."""
    ys, xs = np.mgrid[:height, :width]
    light = sum(np.exp(-((xs - x) ** 2 + (ys - y) ** 2) / (2 * radius**2)) for x, y in places)
    return Image.fromarray(np.repeat((255 * np.clip(light, 0, 1)).round().astype(np.uint8)[..., None], 3, axis=2))


def spot_near(image, place, reach=9):
    """Centre of light within `reach` pixels of a place."""
    light = np.asarray(image)[..., 0].astype(np.float64)
    ys, xs = np.mgrid[: light.shape[0], : light.shape[1]]
    weight = light * (np.hypot(xs - place[0], ys - place[1]) < reach)
    return np.array([(weight * xs).sum(), (weight * ys).sum()]) / weight.sum()


def cubic(distance):
    """Keys' kernel with a = -0.75, as OpenCV has it."""
    a, d = -0.75, abs(distance)
    if d < 1:
        return (a + 2) * d**3 - (a + 3) * d**2 + 1
    return a * d**3 - 5 * a * d**2 + 8 * a * d - 4 * a if d < 2 else 0.0


def sampled(picture, x, y):
    """Bicubic value at one place, edge pixels repeated: sixteen terms, written out."""
    height, width = picture.shape[:2]
    left, top = int(np.floor(x)), int(np.floor(y))
    total = np.zeros(3)
    for j in range(top - 1, top + 3):
        for i in range(left - 1, left + 3):
            value = picture[min(max(j, 0), height - 1), min(max(i, 0), width - 1)]
            total += cubic(x - i) * cubic(y - j) * value
    return total


@pytest.mark.parametrize(
    ("angle", "scale", "size"), [(0.0, 1.0, (300, 320)), (0.5, 1.4, (500, 520)), (-2.0, 0.8, (300, 300))]
)
def test_landmarks_come_to_their_places(angle, scale, size):
    landmarks = turned(TARGET - 112, angle, scale, np.array(size) / 2)
    crop = align_crop(spots(landmarks, *size, radius=3 * scale), landmarks, TARGET)
    assert crop.size == (224, 224)
    for place in TARGET:
        assert np.abs(spot_near(crop, place) - place).max() < 0.1


@settings(max_examples=60, deadline=None)
@given(angle=angles, scale=scales, x=shifts, y=shifts)
def test_a_similarity_is_recovered(angle, scale, x, y):
    matrix = similarity(TARGET, turned(TARGET, angle, scale, (x, y)))
    np.testing.assert_allclose(TARGET @ matrix[:, :2].T + matrix[:, 2], turned(TARGET, angle, scale, (x, y)), atol=1e-8)
    assert np.linalg.det(matrix[:, :2]) == pytest.approx(scale**2)


@settings(max_examples=25, deadline=None)
@given(angle=angles, scale=st.floats(0.9, 2.0))
def test_a_turned_and_scaled_picture_gives_the_same_crop(angle, scale):
    """The picture is one smooth pattern, drawn in any position; the crop follows the landmarks alone."""
    size, target = 48, crop_target(STANDARD_5, size=48)

    def drawn(angle, scale, side):
        landmarks = turned(target - 24, angle, scale, (side / 2, side / 2))
        matrix = similarity(landmarks, target)
        ys, xs = np.mgrid[:side, :side]
        u, v = np.moveaxis(np.stack([xs, ys], axis=-1) @ matrix[:, :2].T + matrix[:, 2], -1, 0)
        pattern = np.stack([np.sin(u / 7), np.cos(v / 9), np.sin((u + v) / 11)], axis=-1)
        return Image.fromarray((127.5 + 120 * pattern).round().astype(np.uint8)), landmarks

    crops = []
    for a, s in ((0.0, 1.0), (angle, scale)):
        picture, landmarks = drawn(a, s, side=int(2 * 48 * s))
        crops.append(np.asarray(align_crop(picture, landmarks, target, size=size)).astype(int))
    assert np.abs(crops[0] - crops[1]).max() <= 3


@settings(max_examples=15, deadline=None)
@given(angle=angles, scale=st.floats(0.05, 2.0), x=st.floats(-40, 60), y=st.floats(-40, 60), seed=st.integers(0, 99))
def test_pixels_are_opencvs_bicubic_with_edges_repeated(angle, scale, x, y, seed):
    """Also where the crop reaches far beyond the picture, or uses a small part of it."""
    rng = np.random.default_rng(seed)
    picture = rng.integers(0, 256, (37, 29, 3), dtype=np.uint8)
    target = crop_target(STANDARD_5, size=16)
    landmarks = turned(target, angle, scale, (x, y))
    crop = np.asarray(align_crop(Image.fromarray(picture), landmarks, target, size=16)).astype(int)
    matrix = similarity(target, landmarks)
    for u, v in rng.integers(0, 16, (12, 2)):
        place = matrix[:, :2] @ (u, v) + matrix[:, 2]
        expected = np.clip(sampled(picture.astype(float), *place), 0, 255)
        assert np.abs(crop[v, u] - expected).max() <= 0.51


def test_faces_without_a_size_or_landmarks_are_unreadable():
    image = Image.new("RGB", (50, 50))
    with pytest.raises(UnreadablePicture, match="no size of a face"):
        align_crop(image, np.full((5, 2), 7.0), TARGET)
    with pytest.raises(UnreadablePicture, match="1 x 50 pixels"):
        align_crop(Image.new("RGB", (1, 50)), TARGET, TARGET)
    with pytest.raises(UnreadablePicture, match="no landmarks"):
        aligned_cut([None], TARGET)(0, image)
