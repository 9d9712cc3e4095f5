"""Rows on stop, stop_token_ids and include_stop_str_in_output."""

from __future__ import annotations

from wire import Raw, Row, bad, both, ok, wrong_type

K32 = 32768

STOP: list[Row] = [
    *both("stop-string", {"stop": "END"}, ok()),
    *both("stop-list", {"stop": ["stop1", "stop2"]}, ok()),
    *both("stop-empty-list", {"stop": []}, ok()),
    *both("stop-null", {"stop": None}, ok()),
    *both("stop-blank", {"stop": " "}, ok()),
    *both("stop-newline", {"stop": "\n"}, ok()),
    *both("stop-chinese", {"stop": ["停止", "。"]}, ok()),
    *both("stop-repeated-items", {"stop": ["a", "a"]}, ok()),
    *both("stop-empty-string", {"stop": ""}, bad("stop")),
    *both("stop-longest-string", {"stop": "x" * K32}, ok()),
    *both("stop-string-too-long", {"stop": "x" * (K32 + 1)}, bad("stop", ("too_long", "stop-total-length"))),
    *both("stop-longest-chinese", {"stop": "字" * K32}, ok()),
    *both("stop-longest-beyond-16-bits", {"stop": "😀" * K32}, ok()),
    *both("stop-longest-total", {"stop": ["a" * 16384, "b" * 16384]}, ok()),
    *both("stop-total-too-long", {"stop": ["a" * 16384, "b" * 16385]}, bad("stop", "stop-total-length")),
    *both("stop-many-items", {"stop": ["x"] * K32}, ok()),
    *both("stop-too-many-items", {"stop": ["x"] * (K32 + 1)}, bad("stop", ("stop-total-length", "too_long"))),
    *both("stop-longest-single-item", {"stop": ["x" * K32]}, ok()),
    *both(
        "stop-single-item-too-long",
        {"stop": ["x" * (K32 + 1)]},
        bad(("stop", "stop[0]"), ("too_long", "stop-total-length")),
    ),
    *both("stop-empty-item", {"stop": [""]}, bad("stop[0]")),
    *both("stop-second-item-empty", {"stop": ["a", ""]}, bad("stop[1]")),
    *both("stop-item-number", {"stop": [5]}, wrong_type("stop[0]")),
    *both("stop-item-null", {"stop": ["a", None]}, bad("stop[1]")),
    *both("stop-item-list", {"stop": [["a"]]}, wrong_type("stop[0]")),
    *both("stop-number", {"stop": 5}, wrong_type("stop")),
    *both("stop-boolean", {"stop": True}, wrong_type("stop")),
    *both("stop-object", {"stop": {}}, wrong_type("stop")),
]

STOP_TOKEN_IDS: list[Row] = [
    *both("stop-ids", {"stop_token_ids": [2, 13]}, ok()),
    *both("stop-ids-empty", {"stop_token_ids": []}, ok()),
    *both("stop-ids-null", {"stop_token_ids": None}, ok()),
    *both("stop-ids-int32-ends", {"stop_token_ids": [-2147483648, 2147483647]}, ok()),
    *both("stop-ids-negative", {"stop_token_ids": [-5]}, ok()),
    *both("stop-ids-above-int32-dropped", {"stop_token_ids": [2147483648]}, ok()),
    *both("stop-ids-below-int32-dropped", {"stop_token_ids": [-2147483649, 2]}, ok()),
    *both("stop-ids-beyond-64-bits-dropped", {"stop_token_ids": [10**30]}, ok()),
    *both("stop-ids-repeated", {"stop_token_ids": [2, 2]}, ok()),
    *both("stop-ids-integral-float", {"stop_token_ids": [2.0]}, ok()),
    *both("stop-ids-exponent", {"stop_token_ids": [Raw("1e1")]}, ok()),
    *both("stop-ids-fraction", {"stop_token_ids": [1.5]}, wrong_type("stop_token_ids[0]")),
    *both("stop-ids-null-element", {"stop_token_ids": [None]}, bad("stop_token_ids[0]")),
    *both("stop-ids-later-null-element", {"stop_token_ids": [2, 13, None]}, bad("stop_token_ids[2]")),
    *both("stop-ids-string-element", {"stop_token_ids": ["2"]}, wrong_type("stop_token_ids[0]")),
    *both("stop-ids-boolean-element", {"stop_token_ids": [True]}, wrong_type("stop_token_ids[0]")),
    *both("stop-ids-list-element", {"stop_token_ids": [[2]]}, wrong_type("stop_token_ids[0]")),
    *both("stop-ids-number", {"stop_token_ids": 2}, wrong_type("stop_token_ids")),
    *both("stop-ids-string", {"stop_token_ids": "2"}, wrong_type("stop_token_ids")),
    *both("stop-ids-object", {"stop_token_ids": {"0": 2}}, wrong_type("stop_token_ids")),
]

NAME = "include_stop_str_in_output"

INCLUDE: list[Row] = [
    *both("include-stop-with-stop", {"stop": "x", NAME: True}, ok()),
    *both("include-stop-with-ids", {"stop_token_ids": [2], NAME: True}, ok()),
    *both("include-stop-alone", {NAME: True}, ok()),
    *both("include-stop-false", {"stop": "x", NAME: False}, ok()),
    *both("include-stop-null", {NAME: None}, ok()),
    *both("include-stop-string", {NAME: "true"}, wrong_type(NAME)),
    *both("include-stop-one", {NAME: 1}, wrong_type(NAME)),
]

ROWS: list[Row] = [*STOP, *STOP_TOKEN_IDS, *INCLUDE]
