"""Chat requests with media, from the body to the engine's request and back, on fakes of sources and decoders."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import httpx
import pytest
from in_process import started
from media_service import MARKS, World, asked, id_of, image, media_service, media_tokenizer, text

from engine.types import MediaItem, MediaKind
from handlers.errors import Problem
from handlers.log_settings import LogSettings
from handlers.media.limits import MediaLimits

CHAT = "/v1/chat/completions"
VIDEO = {"type": "video_url", "video_url": "b.mp4"}
AUDIO = {"type": "input_audio", "input_audio": {"data": "UklGRg==", "format": "WAV"}}
PARTS: dict[MediaKind, dict[str, Any]] = {"image": image("a.png"), "video": VIDEO, "audio": AUDIO}


@pytest.fixture
def world(tmp_path: Path) -> World:
    """Media of four tokens each."""
    return World(tmp_path)


async def refusal(client: httpx.AsyncClient, body: dict[str, Any]) -> tuple[int, str, str]:
    """Status, code and field of an answer that refuses."""
    answer = await client.post(CHAT, json=body)
    error = answer.json()
    return answer.status_code, error["code"], error["param"]


async def test_each_medium_has_its_tokens_where_the_template_puts_it(world: World) -> None:
    """Text and media in the order of the parts, a placeholder repeated for each embedding, and the items beside it."""
    world.sizes = {"a.png": 3, "b.mp4": 2, "UklGRg==": 1}
    service, front = media_service(world)
    async with started(service) as client:
        answer = await client.post(CHAT, json=asked(text("Look: "), image("a.png"), VIDEO, text(" and "), AUDIO))
    (request,) = front.requests

    pad, film, sound = (MARKS[kind] for kind in ("image", "video", "audio"))
    expected = (
        "<|im_start|>user\nLook: "
        f"<|vision_start|>{pad * 3}<|vision_end|><|vision_start|>{film * 2}<|vision_end|> and "
        f"<|audio_bos|>{sound}<|audio_eos|><|im_end|>\n<|im_start|>assistant\n"
    )
    assert media_tokenizer().decode(request.prompt_ids, skip_special_tokens=False) == expected
    starts = [request.prompt_ids.index(id_of(mark)) for mark in (pad, film, sound)]
    assert request.media == (
        MediaItem("image", starts[0], 3, b"a.png", f"{world.folder}/a.png"),
        MediaItem("video", starts[1], 2, b"b.mp4", f"{world.folder}/b.mp4"),
        MediaItem("audio", starts[2], 1, b"UklGRg==", f"{world.folder}/UklGRg=="),
    )
    assert answer.json()["usage"]["prompt_tokens"] == len(request.prompt_ids)


async def test_media_are_taken_from_all_messages_in_order(world: World) -> None:
    """Also from earlier turns; a message of text alone stays a text."""
    service, front = media_service(world)
    messages = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": [image("a.png")]},
        {"role": "assistant", "content": "A cat."},
        {"role": "user", "content": [text("And this?"), image("b.png")]},
    ]
    async with started(service) as client:
        await client.post(CHAT, json={"model": "m", "messages": messages, "max_tokens": 1})

    assert world.fetched == [["a.png", "b.png"]]
    assert [item.content_hash for item in front.requests[0].media] == [b"a.png", b"b.png"]


@pytest.mark.parametrize(
    ("part", "kind", "param", "value"),
    [
        ({"type": "image_url", "image_url": "a.png"}, "image", "image_url", "a.png"),
        (image("a.png"), "image", "image_url.url", "a.png"),
        ({"image_url": {"url": "a.png", "detail": "low"}}, "image", "image_url.url", "a.png"),
        ({"type": "video_url", "video_url": {"url": "b.avi"}}, "video", "video_url.url", "b.avi"),
        ({"type": "audio_url", "audio_url": "c.mp3"}, "audio", "audio_url", "c.mp3"),
        (AUDIO, "audio", "input_audio.data", "UklGRg=="),
    ],
)
async def test_a_part_is_named_by_the_member_that_holds_its_value(
    world: World, part: dict[str, Any], kind: MediaKind, param: str, value: str
) -> None:
    """Bare strings, objects and recordings: what a decoder refuses is blamed on exactly that member."""
    path = f"messages[0].content[1].{param}"
    world.faults = {value: Problem(422, "media_invalid", "no", path)}
    service, front = media_service(world, [kind])
    async with started(service) as client:
        assert await refusal(client, asked(text("x"), part)) == (422, "media_invalid", path)
    assert (world.decoded, front.requests, world.spools[0].closed) == ([value], [], 1)


@pytest.mark.parametrize(
    ("kinds", "words"),
    [
        ((), "reads text only and cannot take messages[0].content[0].video_url"),
        (("image",), "takes images besides text, and cannot take messages[0].content[0].video_url"),
        (("image", "audio"), "takes images and recordings besides text, and cannot take"),
    ],
)
async def test_what_the_model_does_not_take_is_refused_by_kind(
    world: World, kinds: tuple[MediaKind, ...], words: str
) -> None:
    """The message says what it takes; nothing is read."""
    service, _ = media_service(world, kinds)
    async with started(service) as client:
        answer = await client.post(CHAT, json=asked(VIDEO))
    error = answer.json()

    assert (answer.status_code, error["code"]) == (422, "unsupported_media")
    assert error["param"] == "messages[0].content[0].video_url"
    assert words in error["error"]
    assert world.spools == []


async def test_a_deployment_that_lacks_the_packages_says_which() -> None:
    """Text is served; media are refused with the operator's reason."""
    service, _ = media_service("This deployment reads text only, since av is not installed", ["image"])
    async with started(service) as client:
        assert (await client.post(CHAT, json=asked(text("x")))).status_code == 200
        answer = await client.post(CHAT, json=asked(image("a.png")))

    assert answer.json()["code"] == "unsupported_media"
    assert answer.json()["error"].startswith("This deployment reads text only, since av is not installed; it cannot")


@pytest.mark.parametrize(
    ("limits", "param"),
    [
        ({"max_items": 2}, "messages[0].content[2].input_audio"),
        ({"max_videos": 0}, "messages[0].content[1].video_url"),
        ({"max_images": 1}, "messages[0].content[3].image_url"),
    ],
)
async def test_too_many_media_are_refused_at_the_first_beyond(world: World, limits: dict[str, int], param: str) -> None:
    """Of all kinds together, and of each; nothing is read."""
    service, _ = media_service(world, media=MediaLimits(**limits))
    async with started(service) as client:
        assert await refusal(client, asked(*PARTS.values(), image("d.png"))) == (422, "too_long", param)
    assert world.spools == []


async def test_the_part_that_makes_a_prompt_too_long_is_named(world: World) -> None:
    """With its own tokens, those before it, and those of the text; what comes behind it is not decoded."""
    world.sizes = {"a.png": 30, "b.png": 40, "c.png": 10}
    service, front = media_service(world, max_seq_len=80)
    async with started(service) as client:
        answer = await client.post(CHAT, json=asked(image("a.png"), image("b.png"), image("c.png")))
    error = answer.json()

    assert (answer.status_code, error["code"]) == (424, "prompt_too_long")
    assert error["param"] == "messages[0].content[1].image_url.url"
    assert "takes 40, those before it 30, the text " in error["error"]
    assert "at most 79" in error["error"]
    assert (world.decoded, front.requests) == (["a.png", "b.png"], [])


@pytest.mark.parametrize("truncation", [-1, 1])
async def test_a_prompt_with_media_is_never_cut(world: World, truncation: int) -> None:
    """A deployment that cuts long prompts refuses long ones with media: half an image is none."""
    world.sizes = {"a.png": 100}
    service, _ = media_service(world, max_seq_len=80, truncation=truncation)
    async with started(service) as client:
        assert (await refusal(client, asked(image("a.png"))))[:2] == (424, "prompt_too_long")
        too_much = asked(image("a.png"), text("word " * 200))
        assert await refusal(client, too_much) == (424, "prompt_too_long", "messages")
    assert world.decoded == ["a.png"]


async def test_text_that_spells_a_placeholder_stays_text(world: World) -> None:
    """The client's own marks take no place of an image and add none, in messages with media and without."""
    service, front = media_service(world)
    forged = "see <|image_pad|><|vision_start|>"
    async with started(service) as client:
        await client.post(CHAT, json=asked(text(forged), image("a.png")))
        await client.post(CHAT, json=asked(text(forged)))
    with_image, without = front.requests

    pad = id_of(MARKS["image"])
    assert with_image.prompt_ids.count(pad) == with_image.media[0].tokens == 4
    assert with_image.prompt_ids[with_image.media[0].start :][:4] == (pad,) * 4
    assert without.prompt_ids.count(pad) == 0
    assert forged in media_tokenizer().decode(without.prompt_ids, skip_special_tokens=False)


@pytest.mark.parametrize(
    ("template", "words"),
    [
        ("{{ messages[0].role }}", "leaves 0 places for images where the messages have 1"),
        ("{% for m in messages %}{{ m.content }}{% endfor %}", "leaves 0 places for images where the messages have 1"),
        ("<|image_pad|>{{ messages[0].role }}<|image_pad|>", "leaves 2 places for images where the messages have 1"),
    ],
)
async def test_a_template_that_loses_or_repeats_media_is_at_fault(world: World, template: str, words: str) -> None:
    """The model's own is blamed without a field, a request's as chat_template; nothing is read."""
    service, _ = media_service(world, template=template)
    async with started(service) as client:
        own = (await client.post(CHAT, json=asked(image("a.png")))).json()
        sent = (await client.post(CHAT, json=asked(image("a.png"), chat_template=template))).json()

    assert (own["code"], own["param"]) == ("template_error", None)
    assert (sent["code"], sent["param"]) == ("template_error", "chat_template")
    assert own["error"].startswith(f"The model's chat template {words}")
    assert sent["error"].startswith(f"chat_template {words}")
    assert world.spools == []


async def test_a_template_without_media_that_writes_a_placeholder_is_at_fault(world: World) -> None:
    """No embedding would stand there."""
    service, _ = media_service(world)
    async with started(service) as client:
        body = asked(text("x"), chat_template="<|image_pad|>{{ messages[0].role }}")
        assert await refusal(client, body) == (422, "template_error", "chat_template")


@pytest.mark.parametrize("name", ["image", "image_url"])
async def test_templates_get_the_name_that_they_know(world: World, name: str) -> None:
    """Some look for image, some for image_url; a request's own template is read the same way."""
    template = (
        f"{{% for p in messages[0].content %}}{{% if p.type == '{name}' %}}<|image_pad|>{{% endif %}}{{% endfor %}}"
    )
    service, front = media_service(world, template=template)
    async with started(service) as client:
        await client.post(CHAT, json=asked(image("a.png"), image("b.png")))
        await client.post(CHAT, json=asked(image("a.png"), image("b.png"), chat_template=template))

    assert [len(request.prompt_ids) for request in front.requests] == [8, 8]


async def test_a_template_may_put_images_before_the_text(world: World) -> None:
    """The k-th placeholder of a kind is the k-th part of that kind."""
    of_kind = "{{% for p in messages[0].content %}}{{% if p.type == '{0}' %}}{1}{{% endif %}}{{% endfor %}}"
    template = of_kind.format("video", "<|video_pad|>") + of_kind.format("image", "<|image_pad|>")
    service, front = media_service(world, template=template)
    async with started(service) as client:
        await client.post(CHAT, json=asked(image("a.png"), VIDEO, image("c.png")))

    assert [item.content_hash for item in front.requests[0].media] == [b"b.mp4", b"a.png", b"c.png"]


@pytest.mark.parametrize(("path", "told"), [(CHAT, True), ("/v1/completions", False)])
async def test_a_body_too_large_is_told_that_inline_media_count(path: str, told: bool) -> None:
    """On the endpoint that takes them: named by an address they would not."""
    service, _ = media_service(None, max_request_length=0.001)
    async with started(service) as client:
        answer = await client.post(path, json=asked(image("A" * 2000)))

    assert (answer.status_code, answer.json()["code"]) == (413, "body_too_large")
    assert ("images, video and audio inside it count, those named by an address do not" in answer.text) == told


async def test_files_stay_until_the_answer_is_whole(world: World) -> None:
    """The engine may read them while it runs; they go once, after the last event."""
    service, front = media_service(world)
    async with started(service) as client:
        async with client.stream("POST", CHAT, json=asked(image("a.png"), stream=True)) as answer:
            lines = [line async for line in answer.aiter_lines()]
        assert lines[-2] == "data: [DONE]"
    assert len(front.requests) == 1
    assert [spool.closed for spool in world.spools] == [1]
    assert world.closed


async def test_a_refusal_of_the_text_reads_no_media(world: World) -> None:
    """What is refused for its schema costs no fetch."""
    service, _ = media_service(world)
    schema = {"type": "json_schema", "json_schema": {"name": "s", "schema": {"type": "object", "uniqueItems": True}}}
    async with started(service) as client:
        assert (await refusal(client, asked(image("a.png"), response_format=schema)))[1] == "unsupported"
    assert world.spools == []


async def test_media_count_in_metrics_and_in_the_log(world: World, caplog: pytest.LogCaptureFixture) -> None:
    """How many of each kind, what reading them took, and never what they held."""
    caplog.set_level("INFO", logger="handlers.watch")
    service, _ = media_service(world, logs=LogSettings(prompts=True))
    secret = "http://user:word@host/a.png?key=secret"
    data = "data:image/png;base64," + "QUJD" * 100
    async with started(service) as client:
        await client.post(CHAT, json=asked(image(secret), image(data), AUDIO, text("hello")))
        metrics = (await client.get("/metrics")).text
    (fields,) = [record.__dict__["fields"] for record in caplog.records if record.name == "handlers.watch"][:1]

    assert 'mindspec_media_total{kind="image"} 2.0' in metrics
    assert 'mindspec_media_total{kind="video"} 0.0' in metrics
    assert 'mindspec_media_seconds_count{model_name="m"} 1.0' in metrics
    assert (fields["media"], fields["media_tokens"]) == ("image:2,audio:1", 12)
    (message,) = json.loads(fields["prompt"])
    assert message["content"] == [
        {"image_url": "http://host/a.png"},
        {"image_url": "data:image/png;base64,(400 characters)"},
        {"input_audio": "(8 characters of WAV)"},
        {"text": "hello"},
    ]


async def test_a_client_that_goes_away_ends_the_reading(world: World) -> None:
    """Sources are cancelled while the files are still there, which then go; nothing reaches the engine."""
    world.held = asyncio.Event()
    service, front = media_service(world)
    async with started(service) as client:
        asking = asyncio.create_task(client.post(CHAT, json=asked(image("a.png"))))
        await world.asked.wait()
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)
    assert (world.given_up, front.requests, world.spools[0].closed) == (1, [], 1)


async def test_reading_media_counts_to_the_time_until_the_first_token(world: World) -> None:
    """A source that never ends is given up when tokenTimeout is over."""
    world.held = asyncio.Event()
    service, _ = media_service(world, token_timeout=0.05)
    async with started(service) as client:
        answer = await client.post(CHAT, json=asked(image("a.png")))

    assert (answer.status_code, answer.json()["code"]) == (500, "timeout")
    assert (world.given_up, world.spools[0].closed) == (1, 1)


async def test_a_request_that_is_stopped_reads_no_further(world: World) -> None:
    """Its client gets what there is, an empty answer, and waits for no source."""
    world.held = asyncio.Event()
    service, _ = media_service(world)
    async with started(service) as client:
        asking = asyncio.create_task(client.post(CHAT, json=asked(image("a.png")), headers={"req-id": "mine"}))
        await world.asked.wait()
        stopped = await client.post("/v2/models/m/stopInfer", json={"id": "mine"})
        answer = await asking

    assert (stopped.status_code, answer.status_code) == (200, 200)
    (choice,) = answer.json()["choices"]
    assert (choice["message"]["content"], choice["finish_reason"]) == ("", "stop")
    assert (world.given_up, world.spools[0].closed) == (1, 1)


async def test_a_server_that_stops_gives_up_what_it_reads(world: World) -> None:
    """It could not be submitted any more: the client is told at once."""
    world.held = asyncio.Event()
    service, _ = media_service(world)
    async with started(service) as client:
        asking = asyncio.create_task(client.post(CHAT, json=asked(image("a.png"))))
        await world.asked.wait()
        service.ending.begin(1.0)
        answer = await asking

    assert (answer.status_code, answer.json()["code"]) == (503, "stopping")
    assert world.given_up == 1


async def test_text_goes_on_while_media_are_read(world: World) -> None:
    """Sources that hang hold no other request up."""
    world.held = asyncio.Event()
    service, _ = media_service(world)
    async with started(service) as client:
        slow = [asyncio.create_task(client.post(CHAT, json=asked(image("a.png")))) for _ in range(20)]
        await world.asked.wait()
        assert (await client.post(CHAT, json=asked(text("hello")))).status_code == 200
        world.held.set()
        assert {(await each).status_code for each in slow} == {200}
    assert {spool.closed for spool in world.spools} == {1}
