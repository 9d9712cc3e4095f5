"""`mindspec check` from outside: what goes in, what is reported, and the exit code."""

from __future__ import annotations

import base64
import io
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from tools.check import findings, har, jsonl, sources
from tools.cli import main

CHAT = {"model": "m", "messages": [{"role": "user", "content": "Hi"}]}
BAD = {**CHAT, "n": 2, "best_of": 1}
STREAMED = {**CHAT, "stream": True}
HEAD = {"id": "x", "object": "chat.completion.chunk", "created": 1, "model": "m"}


def event(delta: dict[str, Any], finish: str | None = None, **more: Any) -> bytes:
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
    return b"data: " + json.dumps({**HEAD, **more, "choices": [choice]}).encode() + b"\n\n"


USAGE = {
    "prompt_tokens": 1, "prompt_tokens_details": {"cached_tokens": 0}, "completion_tokens": 1, "total_tokens": 2,
    "batch_size": [1], "queue_wait_time": [0],
}  # fmt: skip
OPENING = event({"role": "assistant", "content": ""})
TEXT = event({"role": "assistant", "content": "a"})
LAST = event({"role": "assistant", "content": ""}, "stop", usage=USAGE)
DONE = b"data: [DONE]\n\n"


@pytest.fixture
def check(tmp_path: Path) -> Callable[..., tuple[int, list[tuple[str, int, str]]]]:
    """Runs the command on a file of this content; gives the exit code and (law, line, field) of each breach."""

    def run(content: bytes | str, *options: str, name: str = "file.any") -> tuple[int, list[tuple[str, int, str]]]:
        (tmp_path / name).write_bytes(content.encode() if isinstance(content, str) else content)
        code, report = checked(tmp_path, str(tmp_path / name), *options)
        return code, [(one["law"], one["line"], one["field"]) for one in report["breaches"]]

    return run


def checked(tmp_path: Path, *arguments: str) -> tuple[int, dict[str, Any]]:
    out = tmp_path / "report.out"
    code = main(["check", *arguments, "--format", "json", "--output", str(out)])
    return code, json.loads(out.read_text(encoding="utf-8"))


def har_of(*entries: dict[str, Any], **style: Any) -> str:
    return json.dumps({"log": {"version": "1.2", "entries": list(entries)}}, **style)


def entry(body: Any, answer: bytes | None = None, kind: str = "text/event-stream", **content: Any) -> dict[str, Any]:
    headers = [
        {"name": "Content-Type", "value": kind},
        {"name": "cache-control", "value": "no-cache"},
        {"name": "x-accel-buffering", "value": "no"},
    ]
    made: dict[str, Any] = {
        "request": {
            "method": "POST",
            "url": "https://host/base/v1/chat/completions?x=1",
            "headers": [{"name": ":authority", "value": "host"}, {"name": "content-type", "value": "application/json"}],
            "postData": {"mimeType": "application/json", "text": json.dumps(body)},
        },
        "response": {"status": 0, "headers": [], "content": {}},
    }
    if answer is not None:
        made["response"] = {"status": 200, "headers": headers, "content": {"text": answer.decode(), **content}}
    return made


def test_lines_of_bodies_are_reported_by_line(check: Any) -> None:
    """Empty lines count as lines; the exit code is 1."""
    assert check(f"{json.dumps(CHAT)}\n\n{json.dumps(BAD)}\n") == (1, [("best-of-at-least-n", 3, "best_of")])


def test_a_byte_order_mark_before_a_file_is_left_out(check: Any) -> None:
    """Editors of some systems write one."""
    assert check(b"\xef\xbb\xbf" + json.dumps(BAD).encode()) == (1, [("best-of-at-least-n", 1, "best_of")])


def test_nothing_found_is_exit_code_0(check: Any) -> None:
    """Two good lines."""
    assert check(f"{json.dumps(CHAT)}\n{json.dumps(CHAT)}\n") == (0, [])


def test_a_pretty_printed_body_is_reported_by_the_line_of_the_member(check: Any) -> None:
    """The line of the name, of the object that lacks a member, and of an element."""
    body = json.dumps(
        {**BAD, "messages": [{"role": "user", "content": "x"}, {"role": "tool", "content": "x"}]}, indent=2
    )
    lines = body.splitlines()
    best_of = next(number for number, line in enumerate(lines, 1) if "best_of" in line)
    code, found = check(body)
    assert code == 1
    assert found == [
        ("tool-message-needs-call-id", 8, "messages[1].tool_call_id"),
        ("best-of-at-least-n", best_of, "best_of"),
    ]
    assert lines[7].strip() == "{"


def test_invalid_json_is_reported_where_the_parser_stopped(check: Any) -> None:
    """The third line of a body has a comma too many."""
    assert check('{\n "model": "m",\n ,\n}') == (1, [("json_invalid", 3, None)])


def test_a_broken_line_among_good_ones_is_one_breach(check: Any) -> None:
    """Also where it comes first; the others are judged all the same."""
    good = json.dumps(CHAT)
    assert check(f'{{"model": \n{good}\n{good}') == (1, [("json_invalid", 1, None)])
    assert check(f'{good}\n{{"model": \n{json.dumps(BAD)}')[1] == [
        ("json_invalid", 2, None),
        ("best-of-at-least-n", 3, "best_of"),
    ]


def test_records_name_their_path_and_headers(check: Any) -> None:
    """The path decides the endpoint, whatever stands before it; the url of a batch file is one, too."""
    lines = [
        {"path": "/v1/completions", "body": {"model": "m", "prompt": "x", "best_of": 129}},
        {"custom_id": "1", "method": "POST", "url": "http://h/api/v1/chat/completions", "body": {"model": "m"}},
        {"path": "/v1/completions", "headers": {"Content-Type": "text/plain"}, "body": '{"model": "m", "prompt": "x"}'},
        {"path": "/v1/chat/completions", "method": "PUT", "body": CHAT},
        {"path": "/v1/chat/completion", "body": CHAT},
    ]
    assert check("\n".join(map(json.dumps, lines))) == (
        1,
        [
            ("out_of_range", 1, "best_of"),
            ("missing", 2, "messages"),
            ("media_type", 3, "Content-Type"),
            ("method_not_allowed", 4, None),
            ("not_found", 5, None),
        ],
    )


def test_the_body_of_a_record_is_judged_as_it_was_written(check: Any) -> None:
    """A key twice and NaN are not lost in reading the record."""
    twice = '{"path": "/v1/completions", "body": {"model": "m", "prompt": "x", "prompt": "y"}}'
    nan = '{"path": "/v1/completions", "body": {"model": "m", "prompt": "x", "top_p": NaN}}'
    assert check(f"{twice}\n{nan}")[1] == [("json_invalid", 1, None), ("json_invalid", 2, None)]


def test_the_answer_of_a_record_is_judged(check: Any) -> None:
    """Text of events is a stream, an object a whole answer."""
    late = (OPENING + LAST + TEXT + DONE).decode()
    lines = [
        {"path": "/v1/chat/completions", "body": STREAMED, "answer": {"status": 200, "body": late}},
        {"path": "/v1/chat/completions", "body": STREAMED, "response": (OPENING + TEXT + LAST + DONE).decode()},
        {"path": "/v1/chat/completions", "body": CHAT, "answer": {"status": 429, "body": {"error": "no"}}},
    ]
    code, found = check("\n".join(map(json.dumps, lines)))
    assert code == 1
    assert [(law, line) for law, line, _ in found if law != "error-schema"] == [
        ("stream-nothing-after-finish", 1),
        ("error-retry-after", 3),
    ]


def test_a_har_is_read_with_its_answers(check: Any) -> None:
    """Events as text or as Base64; an entry without an answer has its request judged."""
    late = OPENING + LAST + TEXT + DONE
    packed = base64.b64encode(late)
    written = har_of(entry(STREAMED, late), entry(STREAMED, packed, encoding="base64"), entry(BAD), entry(CHAT))
    assert [law for law, *_ in check(written)[1]] == [
        "stream-nothing-after-finish",
        "stream-nothing-after-finish",
        "best-of-at-least-n",
    ]


def test_a_pretty_printed_har_is_reported_by_line(check: Any) -> None:
    """The line of the body's text, and of the answer."""
    written = har_of(entry(CHAT), entry(BAD), entry(STREAMED, OPENING + LAST + TEXT + DONE), indent=2)
    lines = written.splitlines()
    texts = [number for number, line in enumerate(lines, 1) if '"text"' in line]
    answers = [number for number, line in enumerate(lines, 1) if '"response"' in line]
    code, found = check(written)
    assert code == 1
    assert [line for _, line, _ in found] == [texts[1], answers[2]]


def test_requests_to_other_paths_are_counted_and_not_judged(tmp_path: Path) -> None:
    """A page that a browser loaded between two requests."""
    page = {"request": {"method": "GET", "url": "https://host/index.html", "headers": []}}
    (tmp_path / "x.har").write_text(har_of(page, entry(CHAT)))
    code, report = checked(tmp_path, str(tmp_path / "x.har"))
    assert (code, report["requests"], report["others"]) == (0, 1, 1)


def test_a_folder_is_read_in_order(tmp_path: Path) -> None:
    """Bodies, lines and HARs in it and below it; other files are left alone."""
    (tmp_path / "in" / "deep").mkdir(parents=True)
    (tmp_path / "in" / "b.json").write_text(json.dumps(BAD))
    (tmp_path / "in" / "deep" / "a.jsonl").write_text(f"{json.dumps(CHAT)}\n{json.dumps({**CHAT, 'n': 0})}\n")
    (tmp_path / "in" / "notes.txt").write_text("no JSON")
    code, report = checked(tmp_path, str(tmp_path / "in"))
    assert [(Path(one["file"]).name, one["line"], one["law"]) for one in report["breaches"]] == [
        ("b.json", 1, "best-of-at-least-n"),
        ("a.jsonl", 2, "out_of_range"),
    ]
    assert (code, report["requests"]) == (1, 3)


def test_standard_input_is_read_without_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As ``-``, and when no file is named."""
    for arguments in (["-"], []):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(json.dumps(BAD).encode())))
        code, report = checked(tmp_path, *arguments)
        assert (code, report["breaches"][0]["file"]) == (1, "<stdin>")


def test_the_body_or_the_option_says_which_endpoint_is_meant(check: Any) -> None:
    """messages is chat, prompt is completions; neither needs --endpoint."""
    assert check(json.dumps({"model": "m", "prompt": "x", "logprobs": 6}))[1] == [("out_of_range", 1, "logprobs")]
    assert check(json.dumps({"model": "m"}))[0] == 2
    assert check(json.dumps({"model": "m"}), "--endpoint", "completions")[1] == [("missing", 1, "prompt")]


def test_profiles_and_strict_unknown_add_breaches(check: Any) -> None:
    """What a MindIE with these would refuse; without them the same request is in order."""
    body = json.dumps({**CHAT, "n": 2, "user": "u"})
    assert check(body) == (0, [])
    assert check(body, "--profile", "mtp")[1] == [("mtp-excludes-n", 1, "n")]
    assert check(body, "--profile", "deepseek")[1] == [("deepseek-excludes-n", 1, "n")]
    assert check(body, "--strict-unknown")[1] == [("unknown_field", 1, "user")]
    assert check(json.dumps({**CHAT, "top_k": 0}), "--open-ai-support", "openai") == (0, [])


def test_every_breach_of_a_request_is_reported(check: Any) -> None:
    """Fields at fault beside rules that look at none of them."""
    body = {**BAD, "temperature": -1, "top_p": 2, "logprobs": False, "top_logprobs": 3}
    assert [law for law, *_ in check(json.dumps(body))[1]] == [
        "out_of_range", "out_of_range", "best-of-at-least-n", "top-logprobs-needs-logprobs",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "it is empty"),
        (b" \n\n", "it is empty"),
        (b'{"log": {"entries": [{"a": 1}]}}', "no request with an url"),
        (b'{"log": {"entries": [', "it is no HAR"),
        (b'{"log": {"entries": 5}}', "it is no HAR"),
        (b'{"log": {"entries": [1], "entries": []}}', "entries twice"),
        (b'{"path": 5, "body": {}}', "path or url of the record is no text"),
        (b'{"path": "/v1/completions", "headers": 5, "body": {}}', "headers are neither"),
        (b'{"path": "/v1/completions", "body": {}, "answer": {"status": "x", "body": 1}}', "is no number"),
        (b'{"path": "/v1/completions", "body": {}, "answer": {"status": true, "body": 1}}', "is no number"),
        (b'{"path": "/v1/completions", "body": {}, "status": [200], "answer": {}}', "the answer is no number"),
        (b'{"path": "/v1/completions", "body": {}, "status": "two", "response": 1}', "the response is no number"),
        (b'{"path": "/v1/completions", "body": {}, "status": NaN, "answer": {}}', "is no number"),
    ],
)
def test_what_cannot_be_read_is_a_message_and_exit_code_2(content: bytes, reason: str, check: Any, capsys: Any) -> None:
    """The file, the line where there is one, and why; never a traceback."""
    assert check(content)[0] == 2
    told = capsys.readouterr().err
    assert told.startswith("mindspec: ")
    assert "file.any" in told
    assert reason in told
    assert "Traceback" not in told


@pytest.mark.parametrize("answer", ['{"status": "429", "body": {}}', '{}, "status": "429"'])
def test_a_status_may_be_written_as_text(answer: str) -> None:
    """In the answer or beside it."""
    found = jsonl.record("f", 1, f'{{"path": "/v1/completions", "body": {{}}, "answer": {answer}}}'.encode())
    assert found.answer is not None
    assert found.answer.status == 429


def test_a_missing_file_is_a_message(capsys: Any) -> None:
    """And exit code 2; the report says so, too."""
    assert main(["check", "there-is-no-such-file"]) == 2
    captured = capsys.readouterr()
    assert captured.err == "mindspec: there-is-no-such-file: No such file or directory\n"
    assert captured.out == "0 requests: no breach; 1 place could not be read\n"


def test_limits_are_named_and_cost_only_what_is_over_them(check: Any, monkeypatch: Any, capsys: Any) -> None:
    """A line that is too long, too many entries, a file that is too large, and one too deep."""
    monkeypatch.setattr(jsonl, "MOST_LINE_BYTES", 200)
    monkeypatch.setattr(sources, "MOST_LINE_BYTES", 200)
    long = json.dumps({**CHAT, "user": "u" * 300})
    code, found = check(f"{json.dumps(CHAT)}\n{long}\n{long}\n{json.dumps(BAD)}\n")
    assert (code, found) == (2, [("best-of-at-least-n", 4, "best_of")])
    assert "file.any:2: the line is longer than 200 bytes (MOST_LINE_BYTES)" in capsys.readouterr().err
    monkeypatch.setattr(har, "MOST_HAR_ENTRIES", 1)
    check(har_of(entry(CHAT), entry(CHAT)))
    assert "MOST_HAR_ENTRIES" in capsys.readouterr().err
    monkeypatch.setattr(har, "MOST_DEPTH", 3)
    check(har_of(entry(CHAT)))
    assert "MOST_DEPTH" in capsys.readouterr().err
    monkeypatch.setattr(sources, "MOST_WHOLE_BYTES", 10)
    check(json.dumps(CHAT))
    assert "MOST_WHOLE_BYTES" in capsys.readouterr().err
    monkeypatch.setattr(sources, "MOST_FILE_BYTES", 10)
    check(json.dumps(CHAT))
    assert "MOST_FILE_BYTES" in capsys.readouterr().err


def test_what_is_read_ends_at_a_number_of_breaches(check: Any, monkeypatch: Any, capsys: Any) -> None:
    """The third of five breaches is the last that is told, and the message says why."""
    monkeypatch.setattr(findings, "MOST_BREACHES", 3)
    assert check("\n".join([json.dumps(BAD)] * 5)) == (
        2,
        [("best-of-at-least-n", line, "best_of") for line in (1, 2, 3)],
    )
    assert "file.any:3: nothing is read after 3 breaches" in capsys.readouterr().err


def test_each_server_of_a_har_is_held_to_its_own_form(check: Any) -> None:
    """Two hosts with two forms of errors are in order, one host with both is not."""
    flat = {"error": "no", "error_type": "Input Validation Error", "param": None, "code": "missing"}
    nested = {"error": {"message": "no", "type": "Input Validation Error", "param": None, "code": "missing"}}
    entries = [entry(CHAT, json.dumps(body).encode(), "application/json") for body in (flat, nested)]
    for one in entries:
        one["response"]["status"] = 422
    assert [law for law, *_ in check(har_of(*entries))[1]] == ["error-form"]
    entries[1]["request"]["url"] = "https://other/v1/chat/completions"
    assert check(har_of(*entries)) == (0, [])


def test_an_address_that_is_none_is_no_path_of_the_contract(check: Any) -> None:
    """It is told as such, without a traceback."""
    assert check(json.dumps({"url": "http://[half/v1/completions", "body": CHAT}))[1] == [("not_found", 1, None)]


def test_text_groups_equal_breaches_and_counts(tmp_path: Path, capsys: Any) -> None:
    """One paragraph for 15 equal breaches: what, what to do, where; the last line counts."""
    file = tmp_path / "r.jsonl"
    file.write_text("\n".join([json.dumps(BAD)] * 15))
    assert main(["check", str(file)]) == 1
    *first, last = capsys.readouterr().out.splitlines()
    assert first[:3] == [
        "best-of-at-least-n at best_of, 15 times",
        "  best_of must be at least n when both are given (given: best_of 1, n 2)",
        '  Change best_of or n; {"n": 2, "best_of": 3} is accepted.',
    ]
    assert first[3].endswith(f"{file}:12 and 3 more")
    assert last == "15 requests: 15 breaches in 15 requests"


def test_junit_is_what_ci_servers_read(tmp_path: Path) -> None:
    """Elements, their order and attributes as the usual schema has them; counts agree; odd characters are replaced."""
    file, out = tmp_path / "r.jsonl", tmp_path / "r.xml"
    file.write_text(
        "\n".join(map(json.dumps, [CHAT, {**BAD, "temperature": 0}, {**CHAT, "temperature": "\x01<&"}, {"x": 1}]))
    )
    assert main(["check", str(file), "--format", "junit", "--output", str(out)]) == 2
    root = ElementTree.parse(out).getroot()
    assert root.tag == "testsuites"
    (suite,) = root
    assert {"name", "tests", "failures", "errors", "time", "timestamp", "hostname", "id", "package"} <= set(
        suite.attrib
    )
    assert [child.tag for child in suite] == ["properties", *["testcase"] * 5, "system-out", "system-err"]
    cases = suite.findall("testcase")
    assert [[child.tag for child in case] for case in cases] == [[], ["failure"], ["failure"], ["failure"], ["error"]]
    assert all({"name", "classname", "time"} == set(case.attrib) for case in cases)
    assert (suite.get("tests"), suite.get("failures"), suite.get("errors")) == ("5", "3", "1")
    failures = [case[0] for case in cases[1:4]]
    assert [failure.get("type") for failure in failures] == ["best-of-at-least-n", "n-needs-temperature", "wrong_type"]


def test_an_output_that_cannot_be_written_is_a_message(tmp_path: Path, capsys: Any) -> None:
    """Exit code 2."""
    (tmp_path / "b.json").write_text(json.dumps(CHAT))
    assert main(["check", str(tmp_path / "b.json"), "--output", str(tmp_path)]) == 2
    assert "Is a directory" in capsys.readouterr().err


def test_the_readme_shows_what_the_command_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    """The example's output, line by line."""
    readme = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
    shown = readme.split("$ .venv/bin/mindspec check requests.jsonl\n")[1].split("```")[0]
    monkeypatch.chdir(tmp_path)
    second = {"model": "mock", "prompt": "Once", "n": 2, "best_of": 1, "top_p": 0}
    Path("requests.jsonl").write_text(f"{json.dumps(STREAMED)}\n{json.dumps(second)}\n")
    assert main(["check", "requests.jsonl"]) == 1
    assert capsys.readouterr().out == shown
