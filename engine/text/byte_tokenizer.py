"""A small byte-level tokenizer built in code, for the mock: any text round-trips, and it needs no files.

Its vocabulary is the 256 bytes, pieces of common English and Chinese, and ChatML's control tokens. Chinese
characters and emoji outside the pieces are split over several tokens, as real tokenizers split rare ones.
"""

from __future__ import annotations

from collections.abc import Sequence

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

from engine.text.decoding import BYTE_OF_SYMBOL
from engine.text.tokenizer import BackedTokenizer

END_OF_TEXT = "<|endoftext|>"
TURN_START = "<|im_start|>"
TURN_END = "<|im_end|>"

_ENGLISH = (
    " the of and to in a is that for it as was with be by on not he his but at are this have from or had an they which"
    " one you were all her she there would their we him been has when who will no more if out so up said what its"
    " about than into them can only other time new some could these two may first then do any like my now over such"
    " our man me even most made after also well many must before through back years where much your way down should"
    " because long each just state people how too little good make world very still see own work men day get here"
    " between both life being under three never know same last another while us off might great go come since against"
    " right came take used himself few house use place during high without again home around small however found"
    " mind model answer question token ing ed er ly tion"
)
_CHINESE = (
    "的一是了我不人在他有这个上们来到时大地为子中你说生国年着就那和要她出也得里后自以会家可下而过天去能对小多"
    "然于心学么之都好看起发当没成只如事把还用第样道想作种开"
)

_RUNS = [letter * 16 for letter in " -=*x"]
"""Long runs of one letter are few tokens, as in real vocabularies, so that the longest text allowed fits a context."""

CHAT_TEMPLATE = """\
{%- if tools %}
{{- '<|im_start|>system\\n' }}
{%- if messages[0].role == 'system' %}{{- messages[0].content + '\\n\\n' }}{%- endif %}
{{- 'You may call these functions:\\n' }}
{%- for tool in tools %}{{- tool | tojson }}{{- '\\n' }}{%- endfor %}
{{- 'A call is written as <tool_call>\\n{"name": NAME, "arguments": {...}}\\n</tool_call><|im_end|>\\n' }}
{%- endif %}
{%- for message in messages %}
{%- if not (tools and loop.first and message.role == 'system') %}
{{- '<|im_start|>' + message.role + '\\n' }}
{%- if message.content %}{{- message.content }}{%- endif %}
{%- for call in message.tool_calls or [] %}
{{- '\\n<tool_call>\\n{"name": ' }}{{- call.function.name | tojson }}{{- ', "arguments": ' }}
{%- if call.function.arguments is string %}{{- call.function.arguments }}
{%- else %}{{- call.function.arguments | tojson }}{%- endif %}
{{- '}\\n</tool_call>' }}
{%- endfor %}
{{- '<|im_end|>\\n' }}
{%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{%- endif %}
"""
"""ChatML with any role, tools and tool calls."""


def mock_tokenizer(chat_template: str = CHAT_TEMPLATE, special_tokens: Sequence[str] = ()) -> BackedTokenizer:
    """A fresh tokenizer; ``<|im_end|>`` and ``<|endoftext|>`` are its end-of-sequence tokens.

    Args:
        chat_template: Jinja text.
        special_tokens: further ones, as some family of models has them.
    """
    symbol_of_byte = {byte: symbol for symbol, byte in BYTE_OF_SYMBOL.items()}
    vocabulary = {symbol_of_byte[byte]: byte for byte in range(256)}
    merges: list[tuple[str, str]] = []
    pieces = [" " + word for word in _ENGLISH.split()] + list(_CHINESE)
    for run in _RUNS:
        built = symbol_of_byte[ord(run[0])]
        while len(built) < len(run):
            vocabulary[built * 2] = len(vocabulary)
            merges.append((built, built))
            built *= 2
    for piece in pieces:
        symbols = [symbol_of_byte[byte] for byte in piece.encode()]
        built = symbols[0]
        for symbol in symbols[1:]:
            if built + symbol not in vocabulary:
                vocabulary[built + symbol] = len(vocabulary)
                merges.append((built, symbol))
            built += symbol
    backend = Tokenizer(models.BPE(vocab=vocabulary, merges=merges))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    backend.decoder = decoders.ByteLevel()
    control = [END_OF_TEXT, TURN_START, TURN_END, *special_tokens]
    backend.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in control])
    added = backend.get_added_tokens_decoder()
    return BackedTokenizer(
        backend,
        eos_token_ids=[token_id for token_id, token in added.items() if token.content in (END_OF_TEXT, TURN_END)],
        special_tokens_map={"bos_token": TURN_START, "eos_token": TURN_END, "pad_token": END_OF_TEXT},
        chat_template=chat_template,
    )
