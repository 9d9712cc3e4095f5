"""Streamed decoding: the pieces add up to the whole decode, come out early, and know where each token starts."""

from __future__ import annotations

import json
from time import process_time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny_tokenizers import families, piece_tokenizer
from tokenizers import decoders

from engine.text.decoding import UnsupportedDecoderError, read_decoder

FAMILIES = families()


def stream(tokenizer, ids, skip=False, track=False, follows=False):
    """(pieces, offsets) of a sequence; the last piece is what ``finish`` gives."""
    detokenizer = tokenizer.detokenizer(skip_special_tokens=skip, track_offsets=track, follows_text=follows)
    pieces = [detokenizer.push(token_id) for token_id in ids]
    pieces.append(detokenizer.finish())
    return pieces, list(detokenizer.take_offsets())


def token_ids(tokenizer):
    """Any ids, often bytes of multi-byte characters and special tokens, and some outside the vocabulary."""
    bytes_of_characters = {bytes((byte,)) for byte in "中é😀\ufffda ".encode() + b"\xff\xe0\x80"}
    fragments = [
        number for number in range(tokenizer.vocab_size) if tokenizer.token_bytes(number) in bytes_of_characters
    ]
    any_id = st.integers(0, tokenizer.vocab_size + 2)
    return st.lists(any_id | st.sampled_from([*fragments, *tokenizer.special_ids]), max_size=24)


IDS = {family: token_ids(tokenizer) for family, tokenizer in FAMILIES.items()}


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("skip", [True, False])
@pytest.mark.parametrize("track", [True, False])
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_pieces_add_up_to_the_whole_decode(family, skip, track, data):
    """For any ids, special tokens hidden or not, the joined pieces are what the library decodes from all of them."""
    tokenizer = FAMILIES[family]
    ids = data.draw(IDS[family])
    pieces, _ = stream(tokenizer, ids, skip, track)
    assert "".join(pieces) == tokenizer.decode(ids, skip_special_tokens=skip)


@pytest.mark.parametrize("text", ["日本語 text", "👩‍🚀 and 👍🏽", "naïve Привет", "  two spaces\n\n"])
def test_a_character_split_over_tokens_is_held_until_it_is_whole(text):
    """No piece of a byte-level stream holds U+FFFD, although characters are split over tokens."""
    tokenizer = FAMILIES["byte-level"]
    ids = tokenizer.encode(text, add_special_tokens=False)
    pieces, _ = stream(tokenizer, ids)
    assert "".join(pieces) == text
    assert not any("\ufffd" in piece for piece in pieces)


def test_whole_characters_come_out_with_their_token():
    """Byte-level text is held no longer than the character needs: the first three of 😀's bytes say nothing."""
    tokenizer = FAMILIES["byte-level"]
    pieces, _ = stream(tokenizer, [*b"a", *"😀".encode(), *b"b"])
    assert pieces == ["a", "", "", "", "😀", "b", ""]


def test_bytes_that_stay_incomplete_become_one_replacement_character():
    """Three bytes of 😀 at the end are shown as a whole decode shows them: one U+FFFD, at the end."""
    tokenizer = FAMILIES["byte-level"]
    ids = [*b"a", *"😀".encode()[:3]]
    assert stream(tokenizer, ids)[0] == ["a", "", "", "", "\ufffd"]
    assert tokenizer.decode(ids, skip_special_tokens=False) == "a\ufffd"


def test_a_hidden_special_token_does_not_split_a_character():
    """With special tokens skipped, the bytes around one belong together, as in a whole decode."""
    tokenizer = FAMILIES["byte-level"]
    special = next(iter(tokenizer.special_ids))
    assert "".join(stream(tokenizer, [0xC3, special, 0xA9], skip=True)[0]) == "é"
    assert "".join(stream(tokenizer, [0xC3, special, 0xA9])[0]) == f"\ufffd{tokenizer.token_text(special)}\ufffd"


def ids_of(tokenizer, *tokens):
    """Ids by the vocabulary's own spelling."""
    spelled = {tokenizer.token_string(token_id): token_id for token_id in range(tokenizer.vocab_size)}
    return [spelled[token] for token in tokens]


def test_only_the_first_space_is_stripped():
    """Llama 2's decoder drops one space at the start of the whole text and no other."""
    tokenizer = FAMILIES["llama2"]
    ids = ids_of(tokenizer, "▁the", "▁▁", "▁a")
    assert stream(tokenizer, ids)[0] == ["the", "  ", " a", ""]


@pytest.mark.parametrize("family", FAMILIES)
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_a_text_and_what_follows_it_join_to_the_whole_decode(family, data):
    """For any ids after a text of whole characters: that text and the pieces are what decoding all ids gives."""
    tokenizer = FAMILIES[family]
    ids = data.draw(IDS[family])
    before = ids_of(tokenizer, "b", "a") if family == "byte-level" else ids_of(tokenizer, "▁the", "b")
    pieces, _ = stream(tokenizer, ids, follows=True)
    whole = tokenizer.decode(before + ids, skip_special_tokens=False)
    assert tokenizer.decode(before, skip_special_tokens=False) + "".join(pieces) == whole


def test_offsets_after_a_text_count_the_space_that_stays():
    """After a text the first space is shown, so the second token starts one code point later."""
    tokenizer = FAMILIES["llama2"]
    ids = ids_of(tokenizer, "▁the", "▁a")
    assert stream(tokenizer, ids, track=True) == (["the", " a", ""], [0, 3])
    assert stream(tokenizer, ids, track=True, follows=True) == ([" the", " a", ""], [0, 4])


def test_a_broken_run_of_byte_tokens_is_one_replacement_character_a_byte():
    """Byte fallback judges a run as a whole: 中 followed by a stray byte is four U+FFFD, so a run is held."""
    tokenizer = FAMILIES["gemma"]
    whole = ids_of(tokenizer, "<0xE4>", "<0xB8>", "<0xAD>", "b")
    broken = ids_of(tokenizer, "<0xE4>", "<0xB8>", "<0xAD>", "<0xFF>", "b")
    assert stream(tokenizer, whole)[0] == ["", "", "", "中b", ""]
    assert stream(tokenizer, broken)[0] == ["", "", "", "", "\ufffd\ufffd\ufffd\ufffdb", ""]


def test_offsets_count_code_points_before_each_token():
    """A token inside a character has the offset of that character; emoji and Chinese count one each."""
    tokenizer = FAMILIES["byte-level"]
    _, offsets = stream(tokenizer, [*b"a", *"😀".encode(), *"中".encode(), *b"b"], track=True)
    assert offsets == [0, 1, 1, 1, 1, 2, 2, 2, 3]


def test_offset_after_a_broken_character_counts_its_replacement():
    """A token that does not go on with the held bytes starts after their U+FFFD."""
    tokenizer = FAMILIES["byte-level"]
    _, offsets = stream(tokenizer, [0xF0, 0x9F, *b"A", *b"B"], track=True)
    assert offsets == [0, 0, 1, 2]


def test_a_genuine_replacement_character_is_one_character():
    """U+FFFD spelled in three byte tokens is not taken for a broken character."""
    tokenizer = FAMILIES["byte-level"]
    _, offsets = stream(tokenizer, [*"\ufffd".encode(), *b"B"], track=True)
    assert offsets == [0, 0, 0, 1]


def test_offsets_of_byte_fallback_tokens_point_at_their_character():
    """In a run of byte tokens each points at the character that it is part of; the stripped space does not count."""
    tokenizer = FAMILIES["llama2"]
    ids = ids_of(tokenizer, "▁a", *(f"<0x{byte:02X}>" for byte in "中é".encode()), "b")
    _, offsets = stream(tokenizer, ids, track=True)
    assert offsets == [0, 1, 1, 1, 2, 2, 3]


@pytest.mark.parametrize("family", FAMILIES)
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_every_token_has_an_offset_inside_the_text_in_order(family, data):
    """Offsets: one a token, never falling, never past the end."""
    tokenizer = FAMILIES[family]
    ids = data.draw(IDS[family])
    pieces, offsets = stream(tokenizer, ids, track=True)
    assert len(offsets) == len(ids)
    assert offsets == sorted(offsets)
    assert all(0 <= offset <= len("".join(pieces)) for offset in offsets)


@pytest.mark.parametrize("family", ["byte-level", "llama2"])
def test_decoding_takes_linear_time(family):
    """Eight times the tokens take about eight times the time (under 24 times, to allow for noise)."""
    tokenizer = FAMILIES[family]
    # The worst case of both families: nothing but bytes of unfinished characters.
    ids = ids_of(tokenizer, "<0xE4>") if family == "llama2" else [0xE4]
    stream(tokenizer, ids * 1000)

    def seconds(count):
        begin = process_time()
        stream(tokenizer, ids * count)
        return process_time() - begin

    assert min(seconds(32000) for _ in range(3)) < 24 * min(seconds(4000) for _ in range(3))


@pytest.mark.parametrize(
    ("decoder", "name"),
    [
        (decoders.CTC(), "CTC"),
        (decoders.BPEDecoder(), "BPEDecoder"),
        (decoders.Sequence([decoders.ByteFallback(), decoders.Metaspace()]), "Metaspace"),
        (decoders.Sequence([decoders.Fuse(), decoders.Strip(" ", 0, 1)]), "Strip"),
    ],
)
def test_a_decoder_that_cannot_be_streamed_is_refused_by_name(decoder, name):
    """Rather than text that changes later, such a tokenizer is refused at load."""
    with pytest.raises(UnsupportedDecoderError, match=name):
        piece_tokenizer(decoder)
    with pytest.raises(UnsupportedDecoderError, match=name):
        read_decoder(json.loads(decoder.__getstate__()))
