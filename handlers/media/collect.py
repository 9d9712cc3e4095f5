"""The media parts of a chat request, in its order, as far as the deployed model and the deployment's counts allow."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from typing import Final, NamedTuple

from engine.types import MediaKind
from generated.models import ContentPart, InputAudio, Message
from handlers.errors import refused
from handlers.media.limits import MediaLimits
from handlers.media.parts import MediaPart

KIND_OF: Final[dict[str, MediaKind]] = {
    "image_url": "image",
    "video_url": "video",
    "audio_url": "audio",
    "input_audio": "audio",
}
"""What a part's payload is, by the member that holds it."""
WORDS: Final[dict[MediaKind, str]] = {"image": "images", "video": "videos", "audio": "recordings"}
"""How sentences call them."""


class Carried(NamedTuple):
    """A media part where it stands."""

    param: str
    """Path of the member that holds the payload."""
    member: str
    part: ContentPart


def kind_of(part: ContentPart) -> MediaKind | None:
    """What a part is besides text; None for text."""
    return next((kind for member, kind in KIND_OF.items() if getattr(part, member) is not None), None)


def collect(messages: Sequence[Message], kinds: Collection[MediaKind], limits: MediaLimits) -> list[MediaPart]:
    """The media parts of all messages.

    Args:
        messages: of the request.
        kinds: what the deployed model takes besides text.
        limits: of the deployment.

    Raises:
        Problem: 422, unsupported_media for a kind that the model does not take, too_long for more parts than the
            deployment takes; both name the first part at fault.
    """
    counts: Counter[MediaKind] = Counter()
    most_of = {"image": limits.max_images, "video": limits.max_videos, "audio": limits.max_audios}
    found = []
    for carried in _carried(messages):
        kind = KIND_OF[carried.member]
        if kind not in kinds:
            raise refused("unsupported_media", _not_taken(carried.param, kinds), carried.param)
        counts[kind] += 1
        if counts[kind] > most_of[kind]:
            most = most_of[kind]
            message = f"{carried.param} is one too many: a request has at most {most} {WORDS[kind]} here"
            raise refused("too_long", message, carried.param)
        if counts.total() > limits.max_items:
            message = f"{carried.param} is one too many: a request has at most {limits.max_items} media parts here"
            raise refused("too_long", message, carried.param)
        found.append(_part(carried, kind))
    return found


def _carried(messages: Sequence[Message]) -> Iterator[Carried]:
    for index, message in enumerate(messages):
        if not isinstance(message.content, list):
            continue
        for place, part in enumerate(message.content):
            for member in KIND_OF:
                if getattr(part, member) is not None:
                    yield Carried(f"messages[{index}].content[{place}].{member}", member, part)


def _part(carried: Carried, kind: MediaKind) -> MediaPart:
    payload = getattr(carried.part, carried.member)
    if isinstance(payload, str):
        return MediaPart(kind, carried.param, payload)
    if isinstance(payload, InputAudio):
        return MediaPart(kind, f"{carried.param}.data", payload.data, payload.format.lower())
    return MediaPart(kind, f"{carried.param}.url", payload.url)


def _not_taken(param: str, kinds: Collection[MediaKind]) -> str:
    if not kinds:
        return f"The deployed model reads text only and cannot take {param}"
    words = " and ".join(WORDS[kind] for kind in WORDS if kind in kinds)
    return f"The deployed model takes {words} besides text, and cannot take {param}"
