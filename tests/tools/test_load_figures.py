"""The arithmetic of a comparison, with numbers that can be checked by hand."""

from __future__ import annotations

import pytest

from tools.load.events import StreamedAnswer
from tools.load.figures import Figures, Ratio, decode_figures, medians, percentile, ratio, turn_figures


@pytest.mark.parametrize(
    ("values", "percent", "expected"),
    [
        ([3.0], 50, 3.0),
        ([1.0, 2.0], 50, 1.5),
        ([4.0, 1.0, 3.0, 2.0], 50, 2.5),
        ([1.0, 2.0, 3.0, 4.0, 5.0], 100, 5.0),
        ([0.0, 10.0], 99, 9.9),
    ],
)
def test_percentiles_are_interpolated(values: list[float], percent: float, expected: float) -> None:
    """Between neighbours of the sorted values."""
    assert percentile(values, percent) == pytest.approx(expected)


def test_no_values_have_no_percentile() -> None:
    """Not 0, which would look like a measurement."""
    with pytest.raises(ValueError, match="no values"):
        percentile([], 50)


def answer(first_s: float, last_s: float, tokens: int, prompt: int | None = None, cached: int = 0) -> StreamedAnswer:
    """A good answer."""
    return StreamedAnswer(
        first_s=first_s, last_s=last_s, output_tokens=tokens, counted=True, prompt_tokens=prompt, cached_tokens=cached
    )


def test_a_turns_figures() -> None:
    """Two requests of 5 tokens in 2 s: 5 tok/s; TPOT leaves the first token out; prefill leaves the cached out."""
    figures = turn_figures([answer(0.2, 1.0, 5, 100), answer(0.4, 2.0, 5, 100, 60)], 2.0)

    assert figures["output_tok_s"] == pytest.approx(5.0)
    assert figures["ttft_p50_ms"] == pytest.approx(300)
    assert figures["tpot_p50_ms"] == pytest.approx(300)  # 200 and 400
    assert figures["prefill_tok_s"] == pytest.approx(300)  # 100/0.2 and 40/0.4
    assert figures["wall_s"] == 2.0


def test_failed_answers_count_in_no_figure() -> None:
    """Their tokens are not the server's merit, and their times mean nothing."""
    figures = turn_figures([answer(0.5, 1.0, 6), StreamedAnswer(failure="broke off", output_tokens=99)], 1.0)
    assert figures["output_tok_s"] == pytest.approx(6.0)
    assert turn_figures([StreamedAnswer(failure="broke off")], 1.0) == {}


def test_an_answer_of_one_token_has_no_time_per_token() -> None:
    """There is nothing after the first."""
    assert "tpot_p50_ms" not in turn_figures([answer(0.5, 0.5, 1)], 1.0)


def streamed(sent_s: float, times_s: list[float], tokens: int) -> StreamedAnswer:
    """An answer whose events came at these times after it was asked for."""
    first_s, last_s = times_s[0], times_s[-1]
    return StreamedAnswer(sent_s=sent_s, first_s=first_s, last_s=last_s, output_tokens=tokens, times_s=times_s)


def test_decoding_is_measured_while_all_decode() -> None:
    """Of one answer 1 to 5 s, of the other 3 to 6: both decode from 3 to 5, at 1 and at 0.5 s a token.

    The median pace of 750 ms makes 2 / 0.75 tokens a second for both together.
    """
    slow = streamed(0, [1, 2, 3, 4, 5], 5)
    fast = streamed(2, [1, 1.5, 2, 2.5, 3, 4], 6)
    assert decode_figures([slow, fast]) == {"decode_ms": pytest.approx(750), "decode_tok_s": pytest.approx(2 / 0.75)}


def test_events_of_several_tokens_count_as_many() -> None:
    """Three events a second apart with six tokens: half a second a token."""
    assert decode_figures([streamed(0, [1, 2, 3], 6)])["decode_ms"] == pytest.approx(500)


def test_without_a_common_span_there_is_no_decode_figure() -> None:
    """One ended before the other began; one failed; there were none."""
    early, late = streamed(0, [1, 2, 3], 3), streamed(5, [1, 2, 3], 3)
    assert decode_figures([early, late]) == {}
    assert decode_figures([early, StreamedAnswer(failure="broke off")]) == {}
    assert decode_figures([]) == {}


def test_medians_leave_out_rounds_without_the_figure() -> None:
    """A failed round takes nothing away from the others."""
    rounds: list[Figures] = [{"wall_s": 3.0}, {}, {"wall_s": 1.0, "output_tok_s": 7.0}]
    assert medians(rounds) == {"wall_s": 2.0, "output_tok_s": 7.0}


def test_a_ratio_above_1_means_that_the_first_is_better() -> None:
    """More tokens a second, less time."""
    assert ratio("output_tok_s", [{"output_tok_s": 30}], [{"output_tok_s": 20}]) == Ratio(1.5, 1.5, 1.5)
    assert ratio("ttft_p50_ms", [{"ttft_p50_ms": 100}], [{"ttft_p50_ms": 300}]) == Ratio(3, 3, 3)


def test_ratios_are_made_within_rounds() -> None:
    """On a host that doubles its speed in round 2, both servers double: the ratio is 2 all the time.

    The ratio of the medians, 25 to 20, would say 1.25.
    """
    first: list[Figures] = [{"output_tok_s": 20}, {"output_tok_s": 80}, {"output_tok_s": 25}]
    other: list[Figures] = [{"output_tok_s": 10}, {"output_tok_s": 40}, {"output_tok_s": 20}]
    assert ratio("output_tok_s", first, other) == Ratio(2.0, 1.25, 2.0)


def test_a_round_that_one_side_misses_makes_no_ratio() -> None:
    """And no round at all, none."""
    assert ratio("wall_s", [{}, {"wall_s": 1.0}], [{"wall_s": 9.0}, {"wall_s": 2.0}]) == Ratio(2.0, 2.0, 2.0)
    assert ratio("wall_s", [{}], [{"wall_s": 9.0}]) is None
