"""Images are decoded as transformers' own loader does, and those that are cut short are refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from engine.multimodal.torchvision_import import import_torchvision
from handlers.media.decode_image import decode_image
from handlers.media.faults import MediaFault
from handlers.media.jpeg_scans import scans_of
from tests.media.file_attacks import jpeg_of_scans
from tests.media.files import image_file, picture, saved

NAMES = {"png": "PNG", "jpg": "JPEG"}
WHOLE = {suffix: image_file(suffix) for suffix in NAMES}
SECOND_PICTURE = {"save_all": True, "append_images": [picture(1)]}


def transformers_image(path: Path) -> Image.Image:
    """What transformers' own loader makes of a file."""
    import_torchvision()
    from transformers.image_utils import load_image

    return load_image(str(path))


@pytest.mark.parametrize(
    ("suffix", "mode"),
    [
        *((suffix, mode) for suffix in NAMES for mode in ("RGB", "L", "1")),
        *(("png", mode) for mode in ("P", "LA", "RGBA", "I;16")),
        ("jpg", "CMYK"),
    ],
)
def test_a_mode_is_converted_as_by_transformers(suffix: str, mode: str, tmp_path: Path) -> None:
    """Palettes, grey, black and white, transparency, 16 bits, CMYK."""
    path = tmp_path / "picture"
    path.write_bytes(image_file(suffix, mode=mode))
    found = decode_image(path, NAMES[suffix], 10_000)
    assert (found.mode, found.size) == ("RGB", (64, 48))
    assert np.array_equal(np.array(found), np.array(transformers_image(path)))


def test_a_palette_with_transparency_is_converted_as_by_transformers(tmp_path: Path) -> None:
    """The transparent colour shows as it is stored."""
    path = tmp_path / "picture"
    path.write_bytes(saved(picture(mode="P"), "PNG", transparency=3))
    assert np.array_equal(np.array(decode_image(path, "PNG", 10_000)), np.array(transformers_image(path)))


@pytest.mark.parametrize("suffix", NAMES)
@pytest.mark.parametrize("orientation", range(1, 9))
def test_exif_turns_the_picture_as_by_transformers(suffix: str, orientation: int, tmp_path: Path) -> None:
    """All eight orientations; from the fifth on the sides change places."""
    exif = Image.Exif()
    exif[0x0112] = orientation
    path = tmp_path / "picture"
    path.write_bytes(image_file(suffix, exif=exif))
    found = decode_image(path, NAMES[suffix], 10_000)
    assert found.size == ((64, 48) if orientation < 5 else (48, 64))
    assert np.array_equal(np.array(found), np.array(transformers_image(path)))


def test_the_first_picture_of_two_is_taken(tmp_path: Path) -> None:
    """Phones write such JPEG files (MPO)."""
    path = tmp_path / "picture"
    path.write_bytes(saved(picture(), "MPO", **SECOND_PICTURE))
    assert np.array_equal(np.array(decode_image(path, "JPEG", 10_000)), np.array(transformers_image(path)))


@pytest.mark.parametrize("size", [(1, 1), (1, 3), (3, 1), (3, 3)])
def test_a_picture_of_few_pixels_is_a_picture(size: tuple[int, int], tmp_path: Path) -> None:
    """One of the first things that clients try."""
    path = tmp_path / "picture"
    path.write_bytes(image_file("png", width=size[0], height=size[1]))
    assert decode_image(path, "PNG", 10_000).size == size


def test_as_many_pixels_as_allowed_are_taken(tmp_path: Path) -> None:
    """The limit is the last good number."""
    path = tmp_path / "picture"
    path.write_bytes(WHOLE["png"])
    assert decode_image(path, "PNG", 64 * 48).size == (64, 48)
    with pytest.raises(MediaFault, match="has 64 x 48 = 3072 pixels; at most 3071 are allowed"):
        decode_image(path, "PNG", 64 * 48 - 1)


@pytest.mark.parametrize(
    ("data", "scans"),
    [
        (image_file("jpg"), 1),
        (image_file("jpg", progressive=True), 10),
        (image_file("jpg", mode="CMYK", progressive=True), 18),
        (image_file("jpg") + image_file("jpg"), 1),
        (saved(picture(), "MPO", **SECOND_PICTURE), 1),
        (image_file("jpg", exif=b"Exif\0\0\xff\xda\xff\xda"), 1),
    ],
)
def test_scans_are_those_of_the_first_picture(data: bytes, scans: int) -> None:
    """Not what looks like one in a segment or behind the picture."""
    assert scans_of(data) == scans


def test_a_small_picture_may_have_more_scans_than_a_large_one(tmp_path: Path) -> None:
    """What counts is the work."""
    path = tmp_path / "picture"
    path.write_bytes(jpeg_of_scans(64, 200))
    assert decode_image(path, "JPEG", 1 << 20).size == (64, 64)
    with pytest.raises(MediaFault, match="is a JPEG of 206 scans of 4096 pixels; at most 32 are allowed"):
        decode_image(path, "JPEG", 4096)


@pytest.mark.parametrize("suffix", NAMES)
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_a_picture_that_is_cut_anywhere_is_refused(
    suffix: str, data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Except for the last bytes, which are checksums and say that nothing follows."""
    whole = WHOLE[suffix]
    end = {"png": 40, "jpg": 2}[suffix]
    cut = data.draw(st.integers(1, len(whole) - end - 1))
    path = tmp_path_factory.mktemp("cut") / "picture"
    path.write_bytes(whole[:cut])
    with pytest.raises(MediaFault) as caught:
        decode_image(path, NAMES[suffix], 10_000)
    assert caught.value.code == "media_invalid"
    assert str(path) not in caught.value.reason
