"""Rows on the completions prompt: text, token ids, and lengths."""

from __future__ import annotations

from wire import DROP, Row, bad, completions, missing, ok, refused, too_long, wrong_type

MIB4 = 4194304
TOO_MANY = refused(424, "prompt_too_long")
OUTSIDE = refused(424)

TEXT: list[Row] = [
    completions("prompt-text", {"prompt": "who are you"}, ok()),
    completions("prompt-chinese", {"prompt": "你是谁"}, ok()),
    completions("prompt-beyond-16-bits", {"prompt": "😀"}, ok()),
    completions("prompt-blank", {"prompt": " "}, ok()),
    completions("prompt-newline", {"prompt": "\n"}, ok()),
    completions("prompt-zero-character", {"prompt": "a\u0000b"}, ok()),
    completions("prompt-missing", {"prompt": DROP}, missing("prompt")),
    completions("prompt-null", {"prompt": None}, bad("prompt", ("missing", "wrong_type"))),
    completions("prompt-empty", {"prompt": ""}, bad("prompt")),
    completions("prompt-number", {"prompt": 5}, wrong_type("prompt")),
    completions("prompt-boolean", {"prompt": True}, wrong_type("prompt")),
    completions("prompt-object", {"prompt": {"text": "Hi"}}, wrong_type("prompt")),
]

IDS: list[Row] = [
    completions("prompt-ids", {"prompt": [1, 2, 3]}, ok()),
    completions("prompt-one-id", {"prompt": [5]}, ok()),
    completions("prompt-id-zero", {"prompt": [0]}, ok()),
    completions("prompt-ids-integral-floats", {"prompt": [1.0, 2.0]}, ok()),
    completions("prompt-no-ids", {"prompt": []}, bad("prompt")),
    completions("prompt-strings", {"prompt": ["a", "b"]}, wrong_type(("prompt", "prompt[0]"))),
    completions("prompt-empty-string-in-list", {"prompt": [""]}, wrong_type(("prompt", "prompt[0]"))),
    completions("prompt-nested-ids", {"prompt": [[1, 2]]}, wrong_type(("prompt", "prompt[0]"))),
    completions("prompt-mixed", {"prompt": [1, "a"]}, wrong_type(("prompt", "prompt[1]"))),
    completions("prompt-id-fraction", {"prompt": [1, 2.5]}, wrong_type(("prompt", "prompt[1]"))),
    completions("prompt-id-boolean", {"prompt": [True]}, wrong_type(("prompt", "prompt[0]"))),
    completions("prompt-id-null", {"prompt": [1, None]}, bad(("prompt", "prompt[1]"))),
    completions("prompt-id-negative", {"prompt": [-1]}, refused((422, 424), None, ("prompt", "prompt[0]"))),
    completions("prompt-id-outside-vocabulary", {"prompt": [1, 2147483647]}, OUTSIDE),
    completions("prompt-id-beyond-32-bits", {"prompt": [2147483648]}, OUTSIDE),
    completions("prompt-id-beyond-63-bits", {"prompt": [10**19]}, refused((422, 424), None, ("prompt", "prompt[0]"))),
]

LENGTHS: list[Row] = [
    completions("prompt-longest-is-too-many-tokens", {"prompt": "a" * MIB4}, TOO_MANY),
    completions("prompt-one-code-point-too-long", {"prompt": "a" * (MIB4 + 1)}, too_long("prompt")),
    completions("prompt-long-in-bytes-only", {"prompt": "字" * (MIB4 // 3 + 8)}, TOO_MANY),
    completions("prompt-ids-at-input-limit", {"prompt": [5] * 8}, ok(), max_input_token_len=8),
    completions("prompt-ids-above-input-limit", {"prompt": [5] * 9}, TOO_MANY, max_input_token_len=8),
    completions("prompt-ids-at-sequence-limit", {"prompt": [5] * 8}, ok(), max_seq_len=9),
    completions("prompt-ids-above-sequence-limit", {"prompt": [5] * 9}, TOO_MANY, max_seq_len=9),
    completions("prompt-ids-smaller-limit-wins", {"prompt": [5] * 8}, TOO_MANY, max_seq_len=64, max_input_token_len=7),
    completions("prompt-ids-many", {"prompt": [5] * 1048577}, TOO_MANY),
]

ROWS: list[Row] = [*TEXT, *IDS, *LENGTHS]
