"""Text to token ids and back for one model, from its folder's tokenizer.json; needs neither torch nor transformers."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from tokenizers import Tokenizer

from engine.text.decoding import DecoderPlan, read_decoder
from engine.text.detokenizer import Detokenizer, make_detokenizer

_NAMED_TOKENS = ("bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token")

_THINKING = ("enable_thinking", "thinking")
"""MindIE's switch in tokenizer_config.json; the second is DeepSeek's name for it."""
_LONG_CHARS = 8_000


class TextTokenizer(Protocol):
    """What the front and the handlers may ask of a tokenizer. Safe to call from any thread."""

    vocab_size: int
    """Tokens, added ones included."""
    eos_token_ids: tuple[int, ...]
    special_ids: frozenset[int]
    """Tokens that ``skip_special_tokens`` hides."""
    chat_template: str | None
    """Jinja text; the one named default where there are several."""
    enable_thinking: bool | None
    """Whether the model thinks when nobody says; None where its files do not say."""
    added_tokens: Mapping[int, str]
    """Special and other added tokens, as the vocabulary spells them."""
    bos_token: str | None
    eos_token: str | None
    special_tokens_map: dict[str, str]
    """Such as bos_token, eos_token, pad_token -> the token's string."""

    @property
    def chat_templates(self) -> Mapping[str, str]:
        """All chat templates by name: default, and often tool_use for requests with tools."""
        ...

    def encode(self, text: str, *, add_special_tokens: bool, parse_special: bool = True) -> list[int]:
        """Token ids of a text; ``parse_special`` False reads control tokens in it as ordinary text."""
        ...

    def decode(self, ids: Sequence[int], *, skip_special_tokens: bool) -> str:
        """Text of a whole sequence; ids outside the vocabulary have none."""
        ...

    def token_text(self, token_id: int) -> str:
        """One token decoded alone, its leading space kept; bytes that are no whole character show as U+FFFD."""
        ...

    def token_bytes(self, token_id: int) -> bytes:
        """The bytes that one token adds to the text (its leading space included)."""
        ...

    def detokenizer(
        self, *, skip_special_tokens: bool, track_offsets: bool = False, follows_text: bool = False
    ) -> Detokenizer:
        """A fresh incremental decoder for one choice.

        ``track_offsets``: for ``Detokenizer.take_offsets``; ``follows_text``: the choice goes on with a text.
        """
        ...


class BackedTokenizer:
    """A TextTokenizer over the ``tokenizers`` library."""

    def __init__(
        self,
        backend: Tokenizer,
        *,
        eos_token_ids: Sequence[int],
        special_tokens_map: dict[str, str],
        chat_template: str | None,
        more_templates: Mapping[str, str] | None = None,
        enable_thinking: bool | None = None,
    ) -> None:
        """Take over ``backend``: saved truncation and padding are switched off, named special tokens made special.

        Raises:
            UnsupportedDecoderError: its decoder is of a kind that cannot be streamed.
        """
        backend.no_truncation()
        backend.no_padding()
        known = [token for token in special_tokens_map.values() if backend.token_to_id(token) is not None]
        backend.add_special_tokens(known)
        self._backend = backend
        self._plain_backend: Tokenizer | None = None
        self.plan: DecoderPlan = read_decoder(_decoder_config(backend))
        self.vocab_size = backend.get_vocab_size(with_added_tokens=True)
        self.eos_token_ids = tuple(eos_token_ids)
        added_tokens = backend.get_added_tokens_decoder()
        self.special_ids = frozenset(token_id for token_id, added in added_tokens.items() if added.special)
        self.added_tokens: Mapping[int, str] = {token_id: added.content for token_id, added in added_tokens.items()}
        self.special_tokens_map = special_tokens_map
        self.chat_template = chat_template
        self.enable_thinking = enable_thinking
        self._more_templates = dict(more_templates or {})
        self.bos_token = special_tokens_map.get("bos_token")
        self.eos_token = special_tokens_map.get("eos_token")
        self._bytes: dict[int, bytes] = {}
        self._strings: dict[int, str | None] = {}

    @property
    def chat_templates(self) -> dict[str, str]:
        """See ``TextTokenizer.chat_templates``."""
        default = {} if self.chat_template is None else {"default": self.chat_template}
        return {**self._more_templates, **default}

    def encode(self, text: str, *, add_special_tokens: bool, parse_special: bool = True) -> list[int]:
        """See ``TextTokenizer.encode``."""
        backend = self._backend if parse_special else self._without_special()
        if len(text) < _LONG_CHARS:
            ids: list[int] = backend.encode(text, add_special_tokens=add_special_tokens).ids
        else:
            # A single encode holds the interpreter's lock, so that a long text would stop every other thread; a batch
            # lets go of it. The fast one leaves out offsets, which nobody asks for here.
            ids = backend.encode_batch_fast([text], add_special_tokens=add_special_tokens)[0].ids
        return ids

    def decode(self, ids: Sequence[int], *, skip_special_tokens: bool) -> str:
        """See ``TextTokenizer.decode``."""
        text: str = self._backend.decode(list(ids), skip_special_tokens=skip_special_tokens)
        return text

    def token_string(self, token_id: int) -> str | None:
        """The token as the vocabulary spells it; None for an unknown id."""
        try:
            return self._strings[token_id]
        except KeyError:
            string: str | None = self._backend.id_to_token(token_id)
            return self._strings.setdefault(token_id, string)

    def token_text(self, token_id: int) -> str:
        """See ``TextTokenizer.token_text``."""
        return self.token_bytes(token_id).decode("utf-8", "replace")

    def token_bytes(self, token_id: int) -> bytes:
        """See ``TextTokenizer.token_bytes``."""
        try:
            return self._bytes[token_id]
        except KeyError:
            string = self.token_string(token_id)
            return self._bytes.setdefault(token_id, b"" if string is None else self.plan.token_bytes(string))

    def detokenizer(
        self, *, skip_special_tokens: bool, track_offsets: bool = False, follows_text: bool = False
    ) -> Detokenizer:
        """See ``TextTokenizer.detokenizer``."""
        return make_detokenizer(
            self, skip_special_tokens=skip_special_tokens, track_offsets=track_offsets, follows_text=follows_text
        )

    def _without_special(self) -> Tokenizer:
        # A copy, since the switch is a property of the whole backend and other threads may be encoding.
        if self._plain_backend is None:
            copy = Tokenizer.from_str(self._backend.to_str())
            copy.encode_special_tokens = True
            self._plain_backend = copy
        return self._plain_backend


def tokenizer_from_folder(folder: str | Path) -> BackedTokenizer:
    """The tokenizer of a model folder: tokenizer.json, tokenizer_config.json, generation_config.json, config.json.

    Raises:
        FileNotFoundError: there is no tokenizer.json.
        UnsupportedDecoderError: its decoder is of a kind that cannot be streamed.
        ValueError: a file is not JSON of the expected shape.
    """
    folder = Path(folder)
    path = folder / "tokenizer.json"
    if not path.is_file():
        raise FileNotFoundError(f"{folder} has no tokenizer.json")
    try:
        backend = Tokenizer.from_file(str(path))
    except Exception as error:  # the library raises nothing more precise
        raise ValueError(f"tokenizer.json cannot be read: {error}") from error
    config = _read_json(folder / "tokenizer_config.json")
    named = _named_tokens(config) or _named_tokens(_read_json(folder / "special_tokens_map.json"))
    templates = _chat_templates(folder, config)
    return BackedTokenizer(
        backend,
        eos_token_ids=_eos_token_ids(folder, backend, named.get("eos_token")),
        special_tokens_map=named,
        chat_template=templates.pop("default", None),
        more_templates=templates,
        enable_thinking=next((config[key] for key in _THINKING if isinstance(config.get(key), bool)), None),
    )


def _decoder_config(backend: Tokenizer) -> dict[str, Any] | None:
    # The decoder pickles as its own JSON; the whole tokenizer's JSON would bring a vocabulary of megabytes along.
    config: dict[str, Any] | None = None if backend.decoder is None else json.loads(backend.decoder.__getstate__())
    return config


def _read_json(path: Path) -> dict[str, Any]:
    if not path.is_file():
        return {}
    value = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(value, dict):
        raise ValueError(f"{path} is not a JSON object")
    return value


def _named_tokens(config: dict[str, Any]) -> dict[str, str]:
    named = {}
    for name in _NAMED_TOKENS:
        value = config.get(name)
        content = value.get("content") if isinstance(value, dict) else value
        if isinstance(content, str):
            named[name] = content
    return named


def _eos_token_ids(folder: Path, backend: Tokenizer, eos_token: str | None) -> tuple[int, ...]:
    model = _read_json(folder / "config.json")
    text_model = model.get("text_config")
    for source in (_read_json(folder / "generation_config.json"), model, text_model):
        value = source.get("eos_token_id") if isinstance(source, dict) else None
        if isinstance(value, int):
            return (value,)
        if isinstance(value, list) and value:
            return tuple(value)
    token_id = backend.token_to_id(eos_token) if eos_token is not None else None
    return () if token_id is None else (token_id,)


def _chat_templates(folder: Path, config: dict[str, Any]) -> dict[str, str]:
    """Templates by name: of the configuration, then of files of their own, which are newer and win."""
    found: dict[str, str] = {}
    inside = config.get("chat_template")
    if isinstance(inside, str):
        found["default"] = inside
    elif isinstance(inside, list):
        pairs = ((entry.get("name"), entry.get("template")) for entry in inside if isinstance(entry, dict))
        found |= {name: text for name, text in pairs if isinstance(name, str) and isinstance(text, str)}
    # Beside processors: of models that take media.
    processors = _read_json(folder / "chat_template.json").get("chat_template")
    if isinstance(processors, str):
        found["default"] = processors
    beside = folder / "chat_template.jinja"
    if beside.is_file():
        found["default"] = beside.read_text(encoding="utf-8")
    for more in sorted((folder / "additional_chat_templates").glob("*.jinja")):
        found[more.stem] = more.read_text(encoding="utf-8")
    return found
