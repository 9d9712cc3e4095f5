"""What the engine does with encoders: once for a content, in slices, oldest first, and nothing for who is gone."""

from __future__ import annotations

import shutil

import pytest
import torch
from fake_encoder import CountingClock, FakeEncoder, make_desk, seen_by_model, with_media, write_contents
from packed_play import Arrival, answer_of, finish, greedy, ids, make, play

from engine.batching import BatchLimits
from engine.multimodal import desk as desk_module

NAN = torch.full((3, 2), torch.nan)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """The encoder's input of every content."""
    return write_contents(tmp_path_factory.mktemp("features"))


def made(encoder, **options):
    """An executor whose encoder stops before every row, unless ``options`` for the desk say otherwise."""
    desk = make_desk(encoder, **{"slice_s": 0.001, **options})
    return make(page_size=2, shortest_run=1, media=desk)[0]


def test_pages_of_another_content_are_never_used(files):
    """Two contents of three tokens each behind the same text: only the text is cached, then all but the last token."""
    executor = made(FakeEncoder())
    asked = [
        with_media(greedy(name, [0], 1), [[1, 2], content, [4]], files)
        for name, content in (("a", 1), ("b", 4), ("c", 1))
    ]
    cached = [play(executor, [Arrival(each)]).cached_tokens[each.request_id] for each in asked]
    assert cached == [0, 2, 5]


def test_a_content_that_was_forgotten_finds_no_page_of_its_past(files, monkeypatch):
    """Two numbers are known at most: the third content takes that of the one that was asked for longest ago."""
    monkeypatch.setattr(desk_module, "_KNOWN_CONTENTS", 2)
    executor = made(FakeEncoder())
    cached = []
    for place, content in enumerate([1, 4, 1, 3, 1, 4]):
        asked = with_media(greedy(str(place), [0], 1), [[1, 2], content, [4]], files)
        played = play(executor, [Arrival(asked)])
        assert played.answers[str(place)] == answer_of(asked, seen=seen_by_model([[1, 2], content, [4]]))
        cached.append(played.cached_tokens[str(place)])
    assert cached == [0, 2, 5, 2, 5, 2]


@pytest.mark.parametrize(("parts", "cached"), [([[1, 2], 1, [4]], 12), ([[1, 2], 1], 5)])
def test_an_answer_is_found_again_where_its_places_are_those_of_a_prompt(files, parts, cached):
    """Behind text, all that was computed; behind a medium that reaches further than the text behind it would begin, no
    token of the answer."""
    executor = made(FakeEncoder())
    first = with_media(greedy("first", [0], 7), parts, files)
    answer = ids(play(executor, [Arrival(first)]).answers["first"][0])
    longer = [*parts, [*answer, 5, 5]]
    again = with_media(greedy("again", [0], 3), longer, files)
    played = play(executor, [Arrival(again)])
    assert played.answers["again"] == answer_of(again, seen=seen_by_model(longer))
    assert played.cached_tokens["again"] == cached


def test_a_content_is_encoded_once_for_all_who_have_it(files):
    """Also behind another text, where no page can be shared."""
    encoder = FakeEncoder()
    executor = made(encoder)
    finish(executor, *(with_media(greedy(str(token), [0], 1), [[token], 3, [5]], files) for token in (1, 2, 4)))
    assert encoder.encoded == [3]
    assert executor.stats.media[:3] == (3, 0, 1)


def test_a_content_whose_pages_are_cached_is_not_encoded_again(files):
    """Not even where its embeddings were given up."""
    encoder = FakeEncoder()
    executor = made(encoder, cache_bytes=0)
    for name in "abc":
        finish(executor, with_media(greedy(name, [0], 1), [[1, 2], 2, [4, 5]], files))
        executor._media._kept.clear()
    assert encoder.encoded == [2]


@pytest.mark.parametrize("apart", [False, True])
def test_answers_go_on_while_an_image_is_encoded(files, apart):
    """An answer gains a token in every round, and the image one of its rows."""
    encoder = FakeEncoder()
    executor = make(limits=BatchLimits(apart=apart), media=make_desk(encoder, slice_s=0.001))[0]
    executor.add(greedy("text", [1, 2, 3], 20))
    executor.step()
    executor.add(with_media(greedy("image", [0], 1), [3, [5]], files))
    gained = []
    while encoder.rows < 5:
        rounds = {outcome.request_id: outcome for outcome in executor.step()}
        gained.append((encoder.rows, len(rounds["text"].tokens), rounds["image"].prefilling))
    executor.remove("image")
    assert gained == [(row, 1, True) for row in range(6)]


def test_a_cancelled_request_stops_its_encoder(files):
    """Its thread ends, and no row more is computed."""
    encoder = FakeEncoder()
    executor = made(encoder)
    executor.add(with_media(greedy("image", [0], 1), [3, [5]], files))
    for _ in range(3):
        executor.step()
    rows, thread = encoder.rows, executor._media._job.encoding._thread
    executor.remove("image")
    thread.join(timeout=60)
    assert not thread.is_alive()
    assert executor.step() == []
    assert 0 < encoder.rows == rows < 6


def test_a_desk_that_is_cleared_stops_its_encoder(files):
    """As after a step that failed: its thread ends where it stands."""
    encoder = FakeEncoder()
    executor = made(encoder)
    executor.add(with_media(greedy("image", [0], 1), [3, [5]], files))
    executor.step()
    thread = executor._media._job.encoding._thread
    executor._media.clear()
    thread.join(timeout=60)
    assert not thread.is_alive()
    assert encoder.rows < 6


def test_an_encoder_goes_on_for_others_who_wait_for_the_content(files):
    """The request for which it was begun is cancelled; another one has the same image."""
    encoder = FakeEncoder()
    executor = made(encoder)
    first, second = (with_media(greedy(name, [0], 1), [[token], 3, [5]], files) for name, token in (("a", 1), ("b", 2)))
    executor.add(first)
    executor.add(second)
    executor.step()
    executor.remove("a")
    while executor.live_sequences:
        executor.step()
    assert encoder.encoded == [3]


@pytest.mark.parametrize(
    ("fails", "gives", "sentence"),
    [
        ({1}, {}, "The image at prompt token 2 could not be encoded."),
        ({}, {1: torch.ones(2, 2)}, "The image at prompt token 2 has 2 embeddings, and 3 tokens stand for it."),
        ({}, {1: NAN}, "The model's encoder computed numbers that are not finite for the image at prompt token 2."),
    ],
)
def test_an_item_that_cannot_be_encoded_fails_its_requests_alone(files, fails, gives, sentence):
    """Text and another image beside it are answered, and the executor goes on."""
    encoder = FakeEncoder()
    encoder.fails, encoder.gives = fails, gives
    executor = made(encoder)
    parts = {"bad": [[1, 2], 1, [4]], "good": [[1, 2], 2, [4]], "text": [[1, 2, 6]]}
    requests = [with_media(greedy(name, [0], 3), own, files) for name, own in parts.items()]
    played = play(executor, [Arrival(each) for each in requests])
    assert [(failure.request_id, failure.message) for failure in played.failures] == [("bad", sentence)]
    for each in requests[1:]:
        assert played.answers[each.request_id] == answer_of(each, seen=seen_by_model(parts[each.request_id]))


def test_an_image_that_cannot_be_encoded_again_does_not_end_an_answer_that_has_read_it(files):
    """Its embeddings were given up, and another request has the same image when the device is short of memory."""
    encoder = FakeEncoder()
    executor = made(encoder)
    parts = [[1, 2], 1, [4]]
    answers = with_media(greedy("answers", [0], 8), parts, files)
    executor.add(answers)
    tokens = []
    while not tokens:
        tokens += executor.step()[0].tokens
    executor._media._kept.clear()
    encoder.fails = {1}
    executor.add(with_media(greedy("late", [0], 1), [[6], 1, [4]], files))
    failures = {}
    while executor.live_sequences:
        for outcome in executor.step():
            tokens += outcome.tokens
            if outcome.failure is not None:
                failures[outcome.request_id] = outcome.failure
    assert failures == {"late": "The image at prompt token 1 could not be encoded."}
    assert {0: tokens} == answer_of(answers, seen=seen_by_model(parts))


def test_each_request_is_told_where_its_own_image_stands(files):
    """Two have the same one, at other places."""
    encoder = FakeEncoder()
    encoder.fails = {1}
    texts = {"ab": [4, 5], "a": [4]}
    requests = [with_media(greedy(name, [0], 1), [text, 1], files) for name, text in texts.items()]
    played = play(made(encoder), [Arrival(each) for each in requests])
    assert {failure.request_id: failure.message for failure in played.failures} == {
        "ab": "The image at prompt token 2 could not be encoded.",
        "a": "The image at prompt token 1 could not be encoded.",
    }


def test_a_file_that_is_gone_fails_its_own_request_alone(files, tmp_path):
    """A client that leaves takes its files along; another one with the same image has its own."""
    encoder = FakeEncoder()
    executor = made(encoder)
    path = tmp_path / "given up"
    shutil.copy(files[3][0], path)
    first = with_media(greedy("a", [0], 1), [[1], 3, [5]], {3: (str(path), files[3][1])})
    second = with_media(greedy("b", [0], 1), [[2], 3, [5]], files)
    executor.add(first)
    executor.add(second)
    path.unlink()
    ended = {}
    while executor.live_sequences:
        ended.update({outcome.request_id: outcome for outcome in executor.step() if not outcome.prefilling})
    assert ended["a"].failure == "The image at prompt token 1 could not be encoded."
    assert {0: ended["b"].tokens} == answer_of(second, seen=seen_by_model([[2], 3, [5]]))
    assert encoder.encoded == [3]


def test_media_that_do_not_fit_their_prompt_are_refused(files):
    """The wrong number of tokens, none, a place outside of the prompt, and a text model."""
    good = with_media(greedy("a", [0], 1), [[1], 1, [4]], files)
    (item,) = good.media
    executor = made(FakeEncoder())
    refusals = [
        (1, 2, "3 places of an image are not its 2 tokens"),
        (1, 0, "an image stands for 0 tokens"),
        (3, 3, "do not lie one after the other in its prompt"),
    ]
    for start, tokens, words in refusals:
        wrong = type(item)(item.kind, start, tokens, item.content_hash, item.features)
        with pytest.raises(ValueError, match=words):
            executor.add(type(good)("a", good.prompt_ids, good.sampling, media=(wrong,)))
    with pytest.raises(ValueError, match="the model takes text only"):
        make()[0].add(good)
    assert executor.live_sequences == 0


def test_a_turn_beside_answers_takes_a_part_of_the_round_before(files):
    """The round took 8 ms by the counting clock, so the encoder has 3.6 of the 25 that a turn has alone."""
    rows = {}
    for answering in (False, True):
        encoder, clock = FakeEncoder(), CountingClock()
        desk = make_desk(encoder, slice_s=0.025, clock=clock)
        media = desk.admit(with_media(greedy("a", [0], 1), [3], files))
        desk.turn([], answering=answering)
        clock.now_s += 0.008
        desk.turn([(media, 0)], answering=answering)
        rows[answering] = encoder.rows
        desk.clear()
    assert rows == {False: 6, True: 2}
