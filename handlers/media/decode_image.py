"""Decodes a JPEG or PNG file as transformers' own loader does, within limits that are checked before its pixels are."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from PIL import Image, ImageOps, UnidentifiedImageError

from handlers.media.faults import MediaFault, invalid, too_large
from handlers.media.jpeg_scans import scans_of

_MAX_SCANS: Final = 32
"""Of a JPEG with as many pixels as are allowed; smaller ones may have more, so that the work is the same."""


def decode_image(path: Path, format_name: str, max_pixels: int) -> Image.Image:
    """The picture in RGB, turned as its EXIF data ask.

    The last two steps are ``transformers.image_utils.load_image``'s, so that palettes, CMYK, 16 bits and transparency
    come out as there; of a picture with a second one behind it (MPO) the first is taken, as there. Unlike there, only
    the one decoder runs that the format names, and an animated PNG is refused.

    Args:
        path: the file.
        format_name: ``JPEG`` or ``PNG``.
        max_pixels: checked against the size in the header.

    Raises:
        MediaFault: it has too many pixels, or cannot be decoded to its end.
        MemoryError: as it says.
    """
    try:
        with path.open("rb") as file, Image.open(file, formats=[format_name]) as image:
            _check(image, format_name, max_pixels)
            if format_name == "JPEG":
                _check_scans(image, path.read_bytes(), max_pixels)
            image.load()
            return ImageOps.exif_transpose(image).convert("RGB")
    except (MediaFault, MemoryError):
        raise
    except Exception as error:  # a decoder may end in any exception at bytes that are made for it
        raise _fault(error, format_name) from None


def _check(image: Image.Image, format_name: str, max_pixels: int) -> None:
    width, height = image.size
    if width * height > max_pixels:
        raise too_large(f"has {width} x {height} = {width * height} pixels; at most {max_pixels} are allowed")
    if format_name == "PNG" and getattr(image, "is_animated", False):
        raise invalid("is an animated PNG; an image must be a still picture")


def _check_scans(image: Image.Image, data: bytes, max_pixels: int) -> None:
    width, height = image.size
    scans = scans_of(data)
    if scans > _MAX_SCANS and scans * width * height > _MAX_SCANS * max_pixels:
        raise too_large(f"is a JPEG of {scans} scans of {width * height} pixels; at most {_MAX_SCANS} are allowed")


def _fault(error: Exception, format_name: str) -> MediaFault:
    """In words of ours: those of the library may hold the file's path."""
    text = str(error)
    if "Decompressed data too large" in text or "Too much memory used in text chunks" in text:
        return too_large(f"is a {format_name} whose compressed texts or profile unpack to more than is allowed")
    if "truncated" in text.lower():
        return invalid(f"is cut short: its {format_name} data end before the picture does")
    if isinstance(error, UnidentifiedImageError):
        return invalid(f"begins like a {format_name} but has no valid header")
    return invalid(f"is a damaged {format_name}: it cannot be decoded")
