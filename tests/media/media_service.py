"""A service whose model is made up and takes media, with sources and decoders that do what a test says."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

from engine.mock_front import MockFront
from engine.text.byte_tokenizer import mock_tokenizer
from engine.text.tokenizer import BackedTokenizer
from engine.types import MediaKind, Request
from engine.wire import EngineCommand, Submit
from handlers.errors import Problem
from handlers.media.intake import Intake
from handlers.media.parts import MediaPart, PreparedMedia
from handlers.service import Service
from handlers.settings import Settings

MARKS: Mapping[MediaKind, str] = {"image": "<|image_pad|>", "video": "<|video_pad|>", "audio": "<|AUDIO|>"}
TEMPLATE = """\
{%- for message in messages %}{{- '<|im_start|>' + message.role + '\\n' }}
{%- if message.content is string %}{{- message.content }}
{%- else %}{%- for part in message.content %}
{%- if part.type == 'image' or 'image_url' in part %}{{- '<|vision_start|><|image_pad|><|vision_end|>' }}
{%- elif 'video' in part %}{{- '<|vision_start|><|video_pad|><|vision_end|>' }}
{%- elif part.type == 'audio' %}{{- '<|audio_bos|><|AUDIO|><|audio_eos|>' }}
{%- elif 'text' in part %}{{- part.text }}{%- endif %}{%- endfor %}{%- endif %}
{{- '<|im_end|>\\n' }}{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{%- endif %}
"""
"""As the templates of Qwen2-VL and Qwen2-Audio in what they look at."""


def media_tokenizer(template: str = TEMPLATE) -> BackedTokenizer:
    """The mock's, with the marks of media."""
    around = ("<|vision_start|>", "<|vision_end|>", "<|audio_bos|>", "<|audio_eos|>")
    return mock_tokenizer(template, (*MARKS.values(), *around))


def id_of(mark: str, tokenizer: BackedTokenizer | None = None) -> int:
    """The token that a mark is."""
    (token,) = (tokenizer or media_tokenizer()).encode(mark, add_special_tokens=False)
    return token


class MediaFront(MockFront):
    """A mock engine that takes media of these kinds, and keeps the requests that it was given."""

    def __init__(self, kinds: Sequence[MediaKind], template: str = TEMPLATE, **options: Any) -> None:
        super().__init__(media_tokenizer(template), **options)
        self._kinds = kinds
        self.requests: list[Request] = []

    async def start(self) -> None:
        """See ``Front.start``."""
        await super().start()
        assert self.info is not None
        self.info = replace(self.info, media_tokens=tuple((kind, id_of(MARKS[kind])) for kind in self._kinds))

    def _send(self, command: EngineCommand) -> None:
        if isinstance(command, Submit):
            self.requests.append(command.request)
        super()._send(command)


@dataclass
class FakeSpool:
    """The files of one request; ``closed`` tells when they went."""

    folder: Path
    closed: int = 0

    def close(self) -> None:
        """Remove all."""
        self.closed += 1


@dataclass
class World:
    """What sources and decoders do, and what was asked of them."""

    folder: Path
    sizes: Mapping[str, int] = field(default_factory=dict)
    """Tokens of a medium by its value; 4 if absent."""
    faults: Mapping[str, Problem] = field(default_factory=dict)
    """What refuses a value while it is decoded."""
    held: asyncio.Event | None = None
    """What all sources wait for."""
    spools: list[FakeSpool] = field(default_factory=list)
    fetched: list[list[str]] = field(default_factory=list)
    decoded: list[str] = field(default_factory=list)
    given_up: int = 0
    """Sources that were cancelled."""
    asked: asyncio.Event = field(default_factory=asyncio.Event)
    closed: bool = False

    def open(self) -> FakeSpool:
        """See ``Spools``."""
        self.spools.append(FakeSpool(self.folder))
        return self.spools[-1]

    async def files(self, parts: Sequence[MediaPart], spool: FakeSpool) -> list[MediaPart]:
        """See ``MediaSources``; a part stands for its file."""
        assert not spool.closed
        self.fetched.append([part.value for part in parts])
        self.asked.set()
        if self.held is not None:
            try:
                await self.held.wait()
            except asyncio.CancelledError:
                assert not spool.closed
                self.given_up += 1
                raise
        return list(parts)

    def close(self) -> None:
        """See ``MediaSources``."""

    async def prepare(self, file: MediaPart, spool: FakeSpool) -> PreparedMedia:
        """See ``MediaPool``."""
        assert not spool.closed
        self.decoded.append(file.value)
        if file.value in self.faults:
            raise self.faults[file.value]
        return PreparedMedia(file, self.sizes.get(file.value, 4), file.value.encode(), f"{self.folder}/{file.value}")


class _Pool:
    def __init__(self, world: World) -> None:
        self.prepare = world.prepare

    async def start(self) -> None:
        """See ``MediaPool``."""

    async def close(self) -> None:
        """See ``MediaPool``."""


class _Spools:
    def __init__(self, world: World) -> None:
        self.open = world.open
        self._world = world

    def close(self) -> None:
        """See ``Spools``."""
        self._world.closed = True


def media_service(
    world: World | str | None, kinds: Sequence[MediaKind] = ("image", "video", "audio"), **options: Any
) -> tuple[Service, MediaFront]:
    """A service of this world, or of none; ``front`` and ``template`` are for the engine, the rest are settings."""
    front = MediaFront(kinds, options.pop("template", TEMPLATE), **options.pop("front", {}))
    settings = Settings(**{"model_name": "m", "max_iter_times": 8, **options})
    media = Intake(*cast(Any, (world, _Pool(world), _Spools(world)))) if isinstance(world, World) else world
    return Service(settings, front, media=media), front


def image(url: str) -> dict[str, Any]:
    """A part with an image."""
    return {"type": "image_url", "image_url": {"url": url}}


def text(words: str) -> dict[str, Any]:
    """A part with text."""
    return {"type": "text", "text": words}


def asked(*parts: dict[str, Any], **members: Any) -> dict[str, Any]:
    """A chat request of one message."""
    return {"model": "m", "messages": [{"role": "user", "content": list(parts)}], "max_tokens": 3, **members}
