"""The JSON that the contract reads."""

from __future__ import annotations

import pytest

from handlers.errors import Problem
from handlers.strict_json import JsonLimits, check_shape, parse

MANY = 1_000_000


def limits(depth: int, *, containers: int = MANY, members: int = MANY, values: int = MANY) -> JsonLimits:
    """Limits of which only some matter."""
    return JsonLimits(depth, containers, members, values)


def refusal(raw: bytes) -> Problem:
    """The problem that parsing raises."""
    with pytest.raises(Problem) as caught:
        parse(raw)
    return caught.value


def test_plain_json_is_parsed() -> None:
    """A good body comes out as plain values, whole floats still floats."""
    assert parse('{"a": [1, 2.0, null, "é"]}'.encode()) == {"a": [1, 2.0, None, "é"]}


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        (b"", "is empty"),
        (b" \n", "is empty"),
        (b"bar", "not valid JSON (line 1, column 1)"),
        (b'{"a": NaN}', "not valid JSON (line 1, column 7)"),
        (b"[-Infinity]", "not valid JSON"),
        (b'{"a": 1, "a": 1}', 'has the key "a" twice (line 1'),
        (b'["\\ud800x"]', "half of a surrogate pair"),
        (b'["\\udc00"]', "half of a surrogate pair"),
        (b'["\xff"]', "not valid UTF-8"),
        (b'["\xed\xa0\x80"]', "not valid UTF-8"),
        (b"\xef\xbb\xbf{}", "not valid JSON"),
        (b"1" * 5000, "a number that cannot be read"),
        (b'{"a": 1} x', "not valid JSON"),
    ],
)
def test_anything_else_is_json_invalid_with_its_place(raw: bytes, words: str) -> None:
    """Each kind of bad JSON is a 422 json_invalid whose sentence says what is wrong."""
    problem = refusal(raw)

    assert (problem.status, problem.code, problem.param) == (422, "json_invalid", None)
    assert words in problem.message


def test_a_long_duplicate_key_is_cut() -> None:
    """A key of a megabyte is quoted by its first hundred characters."""
    key = b'"' + b"k" * 1_000_000 + b'"'

    assert len(refusal(b"{" + key + b":1," + key + b":2}").message) < 200


@pytest.mark.parametrize("levels", [3, 100])
def test_the_depth_limit_is_inclusive(levels: int) -> None:
    """As many levels as allowed pass, one more is too_deep; siblings do not add up."""
    body = b'[{"a":1},' * (levels - 1) + b"[]" + b"]" * (levels - 1)

    check_shape(body, limits(levels))
    with pytest.raises(Problem) as caught:
        check_shape(b"[" + body + b"]", limits(levels))
    assert (caught.value.status, caught.value.code) == (422, "too_deep")


def test_brackets_inside_strings_are_text() -> None:
    """Only brackets of the JSON itself count, whatever escapes stand around them."""
    check_shape(b'{"a": "' + b'[{\\"\\\\' * 500 + b'"}', limits(5))


def test_unbalanced_brackets_are_left_to_the_parser() -> None:
    """A body of opening brackets is refused without deep recursion."""
    check_shape(b"[" * 100_000, limits(100))

    assert refusal(b"[" * 100_000).code == "too_deep"


def test_too_many_containers_are_refused_before_they_are_parsed() -> None:
    """Forty megabytes of nested brackets are counted, not peeled or parsed."""
    with pytest.raises(Problem) as caught:
        check_shape(b"[" * 20_000_000 + b"]" * 20_000_000, limits(100, containers=200_000))
    assert (caught.value.status, caught.value.code) == (422, "too_long")
    assert "20000000 arrays and objects" in caught.value.message


def test_the_container_limit_is_inclusive() -> None:
    """As many arrays and objects as allowed pass, one more is too_long."""
    check_shape(b"[" + b",".join([b"{}"] * 199) + b"]", limits(100, containers=200))
    with pytest.raises(Problem, match="201 arrays and objects"):
        check_shape(b"[" + b",".join([b"{}"] * 200) + b"]", limits(100, containers=200))


def test_the_limits_on_members_and_values_are_inclusive() -> None:
    """So many members of objects, and so many further values, pass; one more of either is too_long."""
    check_shape(b'{"a":1,"b":{"c":"x,y:z"}}', limits(9, members=3, values=1))
    with pytest.raises(Problem, match=r"3 members of objects; this deployment takes at most 2 .*maxJsonMembers"):
        check_shape(b'{"a":1,"b":{"c":1}}', limits(9, members=2))
    check_shape(b"[1,2,3]", limits(9, values=2))
    with pytest.raises(Problem, match=r"3 values; this deployment takes at most 2 .*maxJsonValues"):
        check_shape(b"[1,2,3,4]", limits(9, values=2))
