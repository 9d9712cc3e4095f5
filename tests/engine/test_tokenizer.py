"""Tokenizers from model folders and the built-in one: ids, bytes of tokens, special tokens, templates."""

from __future__ import annotations

import json
import subprocess
import sys

import jinja2
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny_tokenizers import families

from engine.text.byte_tokenizer import END_OF_TEXT, TURN_END, TURN_START, mock_tokenizer
from engine.text.tokenizer import tokenizer_from_folder
from tools.weights import default_model_folder

FAMILIES = families()
MOCK = mock_tokenizer()


@pytest.fixture
def folder(tmp_path):
    """A model folder with the built-in tokenizer, saved with truncation and padding switched on."""
    backend = MOCK._backend
    backend.enable_truncation(4)
    backend.enable_padding(length=8)
    backend.save(str(tmp_path / "tokenizer.json"))
    backend.no_truncation()
    backend.no_padding()
    return tmp_path


def write(folder, name, **members):
    """A JSON file in a model folder."""
    (folder / name).write_text(json.dumps(members), encoding="utf-8")


@settings(max_examples=100, deadline=None)
@given(text=st.text(max_size=60))
def test_any_text_round_trips_through_the_built_in_tokenizer(text):
    """Encoding and decoding gives the text back, whatever it holds."""
    ids = MOCK.encode(text, add_special_tokens=True)
    assert MOCK.decode(ids, skip_special_tokens=False) == text


@settings(max_examples=100, deadline=None)
@given(text=st.text(max_size=60))
def test_bytes_of_tokens_add_up_to_the_text(text):
    """Byte-level: the tokens' bytes joined are the text's UTF-8."""
    ids = MOCK.encode(text, add_special_tokens=False)
    assert b"".join(map(MOCK.token_bytes, ids)) == text.encode()


@pytest.mark.parametrize(
    ("family", "token", "raw"),
    [
        ("llama2", "▁the", b" the"),
        ("llama2", "<0xE4>", b"\xe4"),
        ("llama2", "中", "中".encode()),
        ("llama2", "<s>", b"<s>"),
        ("llama2", "<tool>", b"<tool>"),
        ("gemma", "▁▁", b"  "),
        ("metaspace", "▁a", b" a"),
        ("metaspace", "<0xE4>", b"<0xE4>"),
        ("wordpiece", "##ly", b"ly"),
        ("byte-level", "Ġthe", b" the"),
        ("byte-level", "ä", b"\xe4"),
        ("byte-level", "<|im_end|>", b"<|im_end|>"),
    ],
)
def test_bytes_of_one_token(family, token, raw):
    """A token's bytes are what it adds in mid-text: its space is kept, byte tokens are single bytes."""
    tokenizer = FAMILIES[family]
    (token_id,) = [number for number in range(tokenizer.vocab_size) if tokenizer.token_string(number) == token]
    assert tokenizer.token_bytes(token_id) == raw
    assert tokenizer.token_text(token_id) == raw.decode("utf-8", "replace")


def test_an_id_outside_the_vocabulary_has_no_text():
    """Models may have more output rows than the tokenizer has tokens."""
    outside = MOCK.vocab_size + 5
    assert MOCK.token_bytes(outside) == b""
    assert MOCK.decode([65, outside, 66], skip_special_tokens=False) == "AB"


def test_control_strings_can_be_read_as_plain_text():
    """With parse_special False a typed control token is spelled in ordinary tokens."""
    assert MOCK.encode(TURN_END, add_special_tokens=False) == [MOCK.eos_token_ids[-1]]
    plain = MOCK.encode(TURN_END, add_special_tokens=False, parse_special=False)
    assert not MOCK.special_ids & set(plain)
    assert MOCK.decode(plain, skip_special_tokens=True) == TURN_END


def test_saved_truncation_and_padding_do_not_apply(folder):
    """A tokenizer.json may carry both; a prompt is encoded whole and nothing more."""
    tokenizer = tokenizer_from_folder(folder)
    assert tokenizer.encode("abcdefgh", add_special_tokens=True) == [*b"abcdefgh"]


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({"generation_config.json": {"eos_token_id": [7, 8]}, "config.json": {"eos_token_id": 9}}, (7, 8)),
        ({"generation_config.json": {"eos_token_id": 7}}, (7,)),
        ({"generation_config.json": {}, "config.json": {"eos_token_id": 9}}, (9,)),
        ({"config.json": {"eos_token_id": None, "text_config": {"eos_token_id": [5]}}}, (5,)),
        ({"tokenizer_config.json": {"eos_token": {"content": "A"}}}, (65,)),
        ({}, ()),
    ],
)
def test_where_the_end_of_sequence_ids_come_from(folder, files, expected):
    """generation_config.json first, then config.json and its text part, then the tokenizer's own eos_token."""
    for name, members in files.items():
        write(folder, name, **members)
    assert tokenizer_from_folder(folder).eos_token_ids == expected


def test_named_tokens_are_special(folder):
    """A token that tokenizer_config.json names as eos is hidden by skip_special_tokens, even if it was ordinary."""
    write(folder, "tokenizer_config.json", eos_token="Z", pad_token={"content": END_OF_TEXT}, bos_token=None)
    tokenizer = tokenizer_from_folder(folder)
    assert tokenizer.special_tokens_map == {"eos_token": "Z", "pad_token": END_OF_TEXT}
    assert tokenizer.decode([65, 90, 66], skip_special_tokens=True) == "AB"
    assert 90 in tokenizer.special_ids


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        ("T", "T"),
        ([{"name": "tool_use", "template": "X"}, {"name": "default", "template": "T"}], "T"),
        ([{"name": "tool_use", "template": "X"}], None),
        (None, None),
    ],
)
def test_chat_template_in_the_configuration(folder, template, expected):
    """A string, or a list of named ones of which "default" is taken."""
    write(folder, "tokenizer_config.json", chat_template=template)
    assert tokenizer_from_folder(folder).chat_template == expected


def test_chat_template_file_wins(folder):
    """chat_template.jinja beside the tokenizer is the newer form."""
    write(folder, "tokenizer_config.json", chat_template="old")
    (folder / "chat_template.jinja").write_text("new", encoding="utf-8")
    assert tokenizer_from_folder(folder).chat_template == "new"


def test_the_processors_template_wins_over_the_tokenizers(folder):
    """chat_template.json belongs to models that take media; chat_template.jinja is newer than both."""
    write(folder, "tokenizer_config.json", chat_template="the tokenizer's")
    write(folder, "chat_template.json", chat_template="the processor's")
    assert tokenizer_from_folder(folder).chat_template == "the processor's"
    (folder / "chat_template.jinja").write_text("new", encoding="utf-8")
    assert tokenizer_from_folder(folder).chat_template == "new"


def test_chat_templates_have_names(folder):
    """Those of the configuration, and those of additional_chat_templates, which are newer."""
    named = [{"name": "default", "template": "D"}, {"name": "tool_use", "template": "old"}, {"name": "rag"}]
    write(folder, "tokenizer_config.json", chat_template=named)
    (folder / "additional_chat_templates").mkdir()
    (folder / "additional_chat_templates" / "tool_use.jinja").write_text("T", encoding="utf-8")
    assert tokenizer_from_folder(folder).chat_templates == {"default": "D", "tool_use": "T"}


@pytest.mark.parametrize(
    ("config", "expected"),
    [({}, None), ({"enable_thinking": False}, False), ({"thinking": True}, True), ({"enable_thinking": "yes"}, None)],
)
def test_the_switch_of_thinking_in_the_configuration(folder, config, expected):
    """MindIE reads it from tokenizer_config.json, under either name."""
    write(folder, "tokenizer_config.json", **config)
    assert tokenizer_from_folder(folder).enable_thinking is expected


def test_added_tokens_are_known_as_they_are_spelled(folder):
    """Special ones and others alike."""
    assert END_OF_TEXT in tokenizer_from_folder(folder).added_tokens.values()


def test_a_folder_without_a_tokenizer_is_refused(tmp_path):
    """The error names the missing file."""
    with pytest.raises(FileNotFoundError, match=r"tokenizer\.json"):
        tokenizer_from_folder(tmp_path)


def render(messages, **names):
    """The built-in template's prompt."""
    template = jinja2.Environment().from_string(MOCK.chat_template)
    return template.render(messages=messages, add_generation_prompt=True, **names)


def test_built_in_template_writes_turns_of_any_role():
    """System, user, tool and unknown roles each get a turn; the assistant's is opened at the end."""
    roles = ["system", "user", "assistant", "tool", "observer"]
    prompt = render([{"role": role, "content": f"by {role}"} for role in roles])
    turns = "".join(f"{TURN_START}{role}\nby {role}{TURN_END}\n" for role in roles)
    assert prompt == f"{turns}{TURN_START}assistant\n"


def test_built_in_template_writes_tools_and_calls():
    """Tools join the system turn; a call without content is written with its arguments, text or object."""
    calls = [{"function": {"name": "f", "arguments": '{"a": 1}'}}, {"function": {"name": "g", "arguments": {"b": 2}}}]
    messages = [{"role": "system", "content": "Be brief."}, {"role": "assistant", "content": None, "tool_calls": calls}]
    prompt = render(messages, tools=[{"type": "function"}])
    assert prompt.count(f"{TURN_START}system") == 1
    assert "Be brief." in prompt
    assert '{"type": "function"}' in prompt
    assert '{"name": "f", "arguments": {"a": 1}}' in prompt
    assert '{"name": "g", "arguments": {"b": 2}}' in prompt


def test_text_modules_and_fronts_load_neither_torch_nor_transformers():
    """The HTTP process stays small: only the engine process pays for them."""
    code = "import sys, engine.front, engine.mock_front; print(sorted({'torch', 'transformers'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


@pytest.mark.weights
def test_the_default_model_s_tokenizer():
    """Bytes of tokens are exact, a stream equals the whole decode, and its template and end token are found."""
    tokenizer = tokenizer_from_folder(default_model_folder())
    text = "Hello, 世界! 👩‍🚀 naïve  \n\n def f(x): return 日本語"
    ids = tokenizer.encode(text, add_special_tokens=True)
    assert b"".join(map(tokenizer.token_bytes, ids)) == text.encode()
    detokenizer = tokenizer.detokenizer(skip_special_tokens=True)
    pieces = [detokenizer.push(token_id) for token_id in ids]
    assert "".join(pieces) == text
    assert not any("\ufffd" in piece for piece in pieces)
    assert tokenizer.token_text(tokenizer.eos_token_ids[0]) == TURN_END
    assert TURN_START in tokenizer.chat_template
