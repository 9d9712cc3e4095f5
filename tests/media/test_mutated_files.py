"""Files with any bytes changed are prepared or refused, and never a fault of the server."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.multimodal.family import inputs_of
from engine.types import MediaKind
from handlers.media import worker
from handlers.media.child import Children
from tests.media.files import AUDIOS, IMAGES, VIDEOS, media_file
from tests.tiny_media import MediaModels

KINDS: dict[MediaKind, tuple[str, ...]] = {"image": IMAGES, "video": VIDEOS, "audio": AUDIOS}
FILES = {suffix: media_file(suffix) for suffixes in KINDS.values() for suffix in suffixes}
LIMITS = {"max_pixels": 1 << 20, "max_video_s": 60.0, "max_audio_s": 60.0, "disk_reserve_bytes": 0, "decode_s": 60.0}

FORMS = {
    frozenset({"tokens"}),
    frozenset({"refused", "reason"}),
    frozenset({"memory"}),
    frozenset({"ended"}),
}
"""Members of answers that blame nobody or the file."""


def edits(size: int) -> st.SearchStrategy[list[tuple[int, bytes]]]:
    """Other bytes at some places, most of them in the first 500, where headers are."""
    place = st.one_of(st.integers(0, min(500, size) - 1), st.integers(0, size - 1))
    number = st.sampled_from([b"\0" * 4, b"\xff" * 4, b"\x7f" + b"\xff" * 3, b"\xff" * 3 + b"\x7f", b"\0\0\0\1"])
    return st.lists(st.tuples(place, st.binary(min_size=1, max_size=8) | number), min_size=1, max_size=4)


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_a_file_with_any_bytes_changed_is_prepared_or_refused(
    kind: MediaKind, data: st.DataObject, media_models: MediaModels, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Whatever its decoder makes of it."""
    suffix = data.draw(st.sampled_from(KINDS[kind]))
    changed = bytearray(FILES[suffix])
    for place, new in data.draw(edits(len(changed))):
        changed[place : place + len(new)] = new
    answer = answer_to(kind, bytes(changed), tmp_path_factory.mktemp("mutated"), media_models)
    assert frozenset(answer) in FORMS, answer
    assert answer.get("ended") != 0, "the child ended in an exception of ours"


@pytest.mark.parametrize(("kind", "suffix"), [(kind, suffix) for kind, all_of in KINDS.items() for suffix in all_of])
def test_the_files_as_they_are_are_prepared(
    kind: MediaKind, suffix: str, media_models: MediaModels, tmp_path: Path
) -> None:
    """So that those above are refused for what was changed."""
    assert answer_to(kind, FILES[suffix], tmp_path, media_models)["tokens"] > 0


def answer_to(kind: MediaKind, data: bytes, folder: Path, media_models: MediaModels) -> dict[str, Any]:
    """What the worker's fork says of a file, in which no path is shown."""
    (folder / "file").write_bytes(data)
    inputs = inputs_of(media_models.folder("qwen2_audio" if kind == "audio" else "qwen2_vl"))
    request: dict[str, Any] = {"path": str(folder / "file"), "kind": kind, "said": None, "model": "", "limits": LIMITS}
    request["features"] = str(folder / "features")
    answer = Children(lambda sent: worker.answer(inputs, sent)).ask(request, 60.0)
    assert str(folder) not in answer.get("reason", "")
    return answer
