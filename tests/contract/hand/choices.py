"""Rows on n, best_of, beams and streams, their cross-field rules, and logprobs of both endpoints."""

from __future__ import annotations

from wire import Row, bad, both, chat, completions, ok, out_of_range, wrong_type

N: list[Row] = [
    *both("n-one", {"n": 1}, ok()),
    *both("n-configured-most", {"n": 128, "max_tokens": 1}, ok()),
    *both("n-integral-float", {"n": 2.0}, ok()),
    *both("n-null", {"n": None}, ok()),
    *both("n-above-configured-most", {"n": 129}, bad("n")),
    *both("n-largest-is-above-configured", {"n": 8192}, bad("n")),
    *both("n-above-largest", {"n": 8193}, out_of_range("n")),
    *both("n-above-smaller-configured-most", {"n": 5}, bad("n"), max_n=4),
    *both("n-at-smaller-configured-most", {"n": 4}, ok(), max_n=4),
    *both("n-zero", {"n": 0}, out_of_range("n")),
    *both("n-negative", {"n": -1}, out_of_range("n")),
    *both("n-fraction", {"n": 1.5}, wrong_type("n")),
    *both("n-string", {"n": "2"}, wrong_type("n")),
    *both("n-boolean", {"n": True}, wrong_type("n")),
]

BEST_OF: list[Row] = [
    *both("best-of-one", {"best_of": 1}, ok()),
    *both("best-of-largest", {"best_of": 128, "max_tokens": 1}, ok()),
    *both("best-of-integral-float", {"best_of": 2.0}, ok()),
    *both("best-of-null", {"best_of": None}, ok()),
    *both("best-of-zero", {"best_of": 0}, out_of_range("best_of")),
    *both("best-of-above-largest", {"best_of": 129}, out_of_range("best_of")),
    *both("best-of-negative", {"best_of": -1}, out_of_range("best_of")),
    *both("best-of-fraction", {"best_of": 2.5}, wrong_type("best_of")),
    *both("best-of-string", {"best_of": "2"}, wrong_type("best_of")),
    *both("best-of-boolean", {"best_of": False}, wrong_type("best_of")),
]

LESS = bad(("best_of", "n"), "best-of-at-least-n")
UNEQUAL = bad(("best_of", "n"), "stream-best-of-equals-n")
HEAT_N = bad(("n", "temperature"), "n-needs-temperature")
HEAT_BEST = bad(("best_of", "temperature"), "best-of-needs-temperature")

N_AND_BEST_OF: list[Row] = [
    *both("best-of-equals-n", {"n": 2, "best_of": 2}, ok()),
    *both("best-of-above-n", {"n": 2, "best_of": 3}, ok()),
    *both("best-of-below-n", {"n": 2, "best_of": 1}, LESS),
    *both("best-of-below-n-by-one", {"n": 4, "best_of": 3}, LESS),
    *both("best-of-below-n-stream-false", {"n": 2, "best_of": 1, "stream": False}, LESS),
    *both("best-of-below-n-stream-null", {"n": 2, "best_of": 1, "stream": None}, LESS),
    *both("best-of-below-n-beams-false", {"n": 2, "best_of": 1, "use_beam_search": False}, LESS),
    *both("best-of-below-n-beams-null", {"n": 2, "best_of": 1, "use_beam_search": None}, LESS),
    *both("best-of-below-n-with-beams", {"n": 2, "best_of": 1, "use_beam_search": True}, ok()),
    *both("best-of-null-with-n", {"n": 2, "best_of": None}, ok()),
    *both("best-of-with-n-null", {"n": None, "best_of": 2}, ok()),
    *both("best-of-range-holds-with-beams", {"best_of": 129, "use_beam_search": True}, out_of_range("best_of")),
    *both("stream-n-alone", {"stream": True, "n": 2}, ok()),
    *both("stream-n-with-best-of-null", {"stream": True, "n": 2, "best_of": None}, ok()),
    *both("stream-best-of-equals-n", {"stream": True, "n": 2, "best_of": 2}, ok()),
    *both("stream-best-of-one-and-n-one", {"stream": True, "n": 1, "best_of": 1}, ok()),
    *both("stream-best-of-alone", {"stream": True, "best_of": 2}, UNEQUAL),
    *both("stream-best-of-one-alone", {"stream": True, "best_of": 1}, UNEQUAL),
    *both("stream-best-of-with-n-null", {"stream": True, "best_of": 2, "n": None}, UNEQUAL),
    *both("stream-best-of-above-n", {"stream": True, "best_of": 3, "n": 2}, UNEQUAL),
    *both("stream-best-of-below-n", {"stream": True, "best_of": 1, "n": 2}, UNEQUAL),
    *both("stream-best-of-alone-beams-false", {"stream": True, "best_of": 2, "use_beam_search": False}, UNEQUAL),
    *both("stream-best-of-alone-with-beams", {"stream": True, "best_of": 2, "use_beam_search": True}, ok()),
    *both("stream-best-of-above-n-with-beams", {"stream": True, "best_of": 3, "n": 2, "use_beam_search": True}, ok()),
    *both("stream-false-best-of-alone", {"stream": False, "best_of": 2}, ok()),
]

HEAT: list[Row] = [
    *both("n-with-zero-temperature", {"n": 2, "temperature": 0}, HEAT_N),
    *both("n-with-zero-float-temperature", {"n": 2, "temperature": 0.0}, HEAT_N),
    *both("n-one-with-zero-temperature", {"n": 1, "temperature": 0}, ok()),
    *both("n-with-absent-temperature", {"n": 2}, ok()),
    *both("n-with-null-temperature", {"n": 2, "temperature": None}, ok()),
    *both("n-with-tiny-temperature", {"n": 2, "temperature": 1e-9}, ok()),
    *both("n-with-zero-temperature-stream", {"n": 2, "temperature": 0, "stream": True}, HEAT_N),
    *both("n-with-zero-temperature-beams-false", {"n": 2, "temperature": 0, "use_beam_search": False}, HEAT_N),
    *both("n-with-zero-temperature-and-beams", {"n": 2, "temperature": 0, "use_beam_search": True}, ok()),
    *both("best-of-with-zero-temperature", {"best_of": 2, "temperature": 0}, HEAT_BEST),
    *both("best-of-and-n-one-with-zero-temperature", {"best_of": 2, "n": 1, "temperature": 0}, HEAT_BEST),
    *both("best-of-one-with-zero-temperature", {"best_of": 1, "temperature": 0}, ok()),
    *both("best-of-with-absent-temperature", {"best_of": 2}, ok()),
    *both("best-of-with-null-temperature", {"best_of": 2, "temperature": None}, ok()),
    *both("best-of-with-zero-temperature-and-beams", {"best_of": 2, "temperature": 0, "use_beam_search": True}, ok()),
]

BEAM_STOP = bad(("use_beam_search", "stop"), "beam-excludes-stop")
BEAM_IDS = bad(("use_beam_search", "stop_token_ids"), "beam-excludes-stop-token-ids")

BEAMS: list[Row] = [
    *both("beams-with-width", {"use_beam_search": True, "n": 3}, ok()),
    *both("beams-with-stream", {"use_beam_search": True, "stream": True}, ok()),
    *both("beams-with-stop", {"use_beam_search": True, "stop": "x"}, BEAM_STOP),
    *both("beams-with-stop-list", {"use_beam_search": True, "stop": ["x"]}, BEAM_STOP),
    *both("beams-with-stop-empty-list", {"use_beam_search": True, "stop": []}, ok()),
    *both("beams-with-stop-null", {"use_beam_search": True, "stop": None}, ok()),
    *both("beams-false-with-stop", {"use_beam_search": False, "stop": "x"}, ok()),
    *both("beams-null-with-stop", {"use_beam_search": None, "stop": "x"}, ok()),
    chat("beams-with-stop-ids", {"use_beam_search": True, "stop_token_ids": [2]}, BEAM_IDS),
    completions("beams-with-stop-ids", {"use_beam_search": True, "stop_token_ids": [2]}, ok()),
    chat("beams-with-stop-ids-empty", {"use_beam_search": True, "stop_token_ids": []}, ok()),
    chat("beams-with-stop-ids-null", {"use_beam_search": True, "stop_token_ids": None}, ok()),
    chat("beams-with-stop-ids-all-dropped", {"use_beam_search": True, "stop_token_ids": [2147483648]}, ok()),
    chat("beams-false-with-stop-ids", {"use_beam_search": False, "stop_token_ids": [2]}, ok()),
    *both("beams-with-sampling-fields", {"use_beam_search": True, "temperature": 2, "top_k": 5, "seed": 7}, ok()),
    chat("beams-with-logprobs", {"use_beam_search": True, "n": 2, "logprobs": True}, ok()),
    completions("beams-with-logprobs", {"use_beam_search": True, "n": 2, "logprobs": 2}, ok()),
]

NEEDS = bad(("top_logprobs", "logprobs"), "top-logprobs-needs-logprobs")

LOGPROBS: list[Row] = [
    chat("logprobs-true", {"logprobs": True}, ok()),
    chat("logprobs-false", {"logprobs": False}, ok()),
    chat("logprobs-null", {"logprobs": None}, ok()),
    chat("logprobs-number", {"logprobs": 1}, wrong_type("logprobs")),
    chat("logprobs-string", {"logprobs": "true"}, wrong_type("logprobs")),
    chat("top-logprobs-none", {"logprobs": True, "top_logprobs": 0}, ok()),
    chat("top-logprobs-most", {"logprobs": True, "top_logprobs": 20}, ok()),
    chat("top-logprobs-null", {"logprobs": True, "top_logprobs": None}, ok()),
    chat("top-logprobs-alone", {"top_logprobs": 5}, ok()),
    chat("top-logprobs-zero-alone", {"top_logprobs": 0}, ok()),
    chat("top-logprobs-with-logprobs-null", {"logprobs": None, "top_logprobs": 3}, ok()),
    chat("top-logprobs-zero-with-logprobs-false", {"logprobs": False, "top_logprobs": 0}, ok()),
    chat("top-logprobs-with-logprobs-false", {"logprobs": False, "top_logprobs": 5}, NEEDS),
    chat("top-logprobs-one-with-logprobs-false", {"logprobs": False, "top_logprobs": 1}, NEEDS),
    chat("top-logprobs-above-most", {"logprobs": True, "top_logprobs": 21}, out_of_range("top_logprobs")),
    chat("top-logprobs-negative", {"logprobs": True, "top_logprobs": -1}, out_of_range("top_logprobs")),
    chat("top-logprobs-integral-float", {"logprobs": True, "top_logprobs": 1.0}, ok()),
    chat("top-logprobs-fraction", {"logprobs": True, "top_logprobs": 1.5}, wrong_type("top_logprobs")),
    chat("top-logprobs-boolean", {"logprobs": True, "top_logprobs": True}, wrong_type("top_logprobs")),
    chat("top-logprobs-string", {"logprobs": True, "top_logprobs": "3"}, wrong_type("top_logprobs")),
    completions("logprobs-zero", {"logprobs": 0}, ok()),
    completions("logprobs-one", {"logprobs": 1}, ok()),
    completions("logprobs-two", {"logprobs": 2}, ok()),
    completions("logprobs-three", {"logprobs": 3}, ok()),
    completions("logprobs-four", {"logprobs": 4}, ok()),
    completions("logprobs-five", {"logprobs": 5}, ok()),
    completions("logprobs-six", {"logprobs": 6}, out_of_range("logprobs")),
    completions("logprobs-negative", {"logprobs": -1}, out_of_range("logprobs")),
    completions("logprobs-integral-float", {"logprobs": 2.0}, ok()),
    completions("logprobs-fraction", {"logprobs": 2.5}, wrong_type("logprobs")),
    completions("logprobs-null", {"logprobs": None}, ok()),
    completions("logprobs-true", {"logprobs": True}, wrong_type("logprobs")),
    completions("logprobs-false", {"logprobs": False}, wrong_type("logprobs")),
    completions("logprobs-string", {"logprobs": "2"}, wrong_type("logprobs")),
]

ROWS: list[Row] = [*N, *BEST_OF, *N_AND_BEST_OF, *HEAT, *BEAMS, *LOGPROBS]
