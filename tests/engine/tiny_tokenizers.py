"""Tokenizers of every decoder family, built in code, for tests of text."""

from __future__ import annotations

from tokenizers import AddedToken, Tokenizer, decoders, models

from engine.text.byte_tokenizer import mock_tokenizer
from engine.text.tokenizer import BackedTokenizer

_PIECES = ["▁a", "▁▁", "▁", "b", "é", "中", "▁the", "ing", "##ly", "##", ".", "n't", "'s", "▁do", "not", "?", "x ."]


def piece_tokenizer(decoder: decoders.Decoder | None) -> BackedTokenizer:
    """A vocabulary of pieces, 256 byte tokens and two special tokens, with this decoder."""
    tokens = ["<unk>", *_PIECES, *(f"<0x{byte:02X}>" for byte in range(256))]
    backend = Tokenizer(models.WordLevel({token: index for index, token in enumerate(tokens)}, unk_token="<unk>"))
    if decoder is not None:
        backend.decoder = decoder
    backend.add_special_tokens([AddedToken("<s>", special=True), AddedToken("</s>", special=True)])
    backend.add_tokens([AddedToken("<tool>", special=False)])
    return BackedTokenizer(
        backend,
        eos_token_ids=(backend.token_to_id("</s>"),),
        special_tokens_map={"bos_token": "<s>", "eos_token": "</s>"},
        chat_template=None,
    )


def _llama2() -> decoders.Decoder:
    return decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )


def _gemma() -> decoders.Decoder:
    return decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])


def families() -> dict[str, BackedTokenizer]:
    """One tokenizer for each kind of decoder that models use."""
    return {
        "byte-level": mock_tokenizer(),
        "llama2": piece_tokenizer(_llama2()),
        "gemma": piece_tokenizer(_gemma()),
        "metaspace": piece_tokenizer(decoders.Metaspace()),
        "metaspace-never": piece_tokenizer(decoders.Metaspace(prepend_scheme="never")),
        "wordpiece": piece_tokenizer(decoders.WordPiece()),
        "wordpiece-raw": piece_tokenizer(decoders.WordPiece(cleanup=False)),
        # Not both sides at once: the library itself panics then on a token that is a single space.
        "strip-left": piece_tokenizer(decoders.Sequence([decoders.Replace("▁", " "), decoders.Strip(" ", 1, 0)])),
        "strip-right": piece_tokenizer(decoders.Sequence([decoders.Replace("▁", " "), decoders.Strip(" ", 0, 1)])),
        "none": piece_tokenizer(None),
    }
