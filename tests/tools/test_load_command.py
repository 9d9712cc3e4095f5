"""The bench command: which servers its options and files name, and a whole run against the mock."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tools.cli import _parser, main
from tools.load.client import Address
from tools.load.command import chosen_servers, spec_of
from tools.load.processes import process_stat, trees
from tools.load.servers import Server, ServerError, ServerSpec, evict, first_model, own_command


def servers(*options: str) -> list[ServerSpec]:
    """What the options name."""
    return chosen_servers(_parser().parse_args(["bench", *options]))


def test_without_a_server_this_program_is_measured() -> None:
    """On a free port, in a process of its own."""
    (spec,) = servers()
    assert (spec.name, spec.command) == ("mindspec", own_command((), spec.address.port))


def test_own_servers_may_have_names_and_options() -> None:
    """So that two settings can be compared; the second needs no name."""
    first, second = servers("--serve", "small=--max-batch-size 4", "--serve=--dtype float32")
    assert first.name == "small"
    assert first.command is not None
    assert first.command[-2:] == ("--max-batch-size", "4")
    assert second.name == "mindspec-2"
    assert second.command is not None
    assert second.command[-2:] == ("--dtype", "float32")
    assert first.address.port != second.address.port


def test_a_running_server_is_named_by_its_url() -> None:
    """It has no command, so nobody freezes or ends it."""
    (spec,) = servers("--url", "peer=http://127.0.0.1:8000")
    assert (spec.name, spec.address, spec.command) == ("peer", Address("127.0.0.1", 8000), None)


def test_a_servers_file_names_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the order of the file, after those of the options."""
    monkeypatch.setenv("WHERE", "somewhere")
    file = tmp_path / "peers.yaml"
    file.write_text("a: {url: 'http://127.0.0.1:1', command: '$WHERE/run --x 1'}\nb: {url: 'http://[::1]:2'}\n")

    found = servers("--url", "http://127.0.0.1:3", "--servers", str(file))

    assert [spec.name for spec in found] == ["url-1", "a", "b"]
    assert found[1].command == ("somewhere/run", "--x", "1")


def test_an_entry_of_a_servers_file_is_read_whole() -> None:
    """Variables are filled in everywhere but in the request's fields."""
    entry = {
        "url": "http://127.0.0.1:8101",
        "model": "smol",
        "command": "${BIN}/serve smol",
        "cwd": "$BIN",
        "env": {"KEY": "$BIN/lib"},
        "body": {"ignore_eos": None, "text": "$BIN"},
        "files": ["$BIN"],
        "fresh": ["CACHE"],
    }
    assert spec_of("peer", entry, {"BIN": "b"}) == ServerSpec(
        name="peer",
        address=Address("127.0.0.1", 8101),
        model="smol",
        command=("b/serve", "smol"),
        env={"KEY": "b/lib"},
        cwd=Path("b"),
        body={"ignore_eos": None, "text": "$BIN"},
        files=(Path("b"),),
        fresh=("CACHE",),
    )


@pytest.mark.parametrize(
    ("name", "entry", "words"),
    [
        ("a", {"command": "x"}, "a mapping with a url is needed"),
        ("a", {"url": "http://127.0.0.1:1", "comand": "x"}, "unknown: comand"),
        ("a", {"url": "http://127.0.0.1:1", "env": ["x"]}, "env must be a dict"),
        ("a", {"url": "http://127.0.0.1:1", "command": "$NONE"}, "NONE is not set"),
        ("a", {"url": "http://192.0.2.1:1"}, "leads to another machine"),
        ("a b", {"url": "http://127.0.0.1:1"}, "is no name for a server"),
    ],
)
def test_a_wrong_entry_is_refused_with_a_sentence(name: str, entry: Any, words: str) -> None:
    """Before anything is started."""
    with pytest.raises(ValueError, match=words):
        spec_of(name, entry, {})


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--url", "http://192.0.2.1:80"), "only loopback addresses are loaded"),
        (("--url", "a=http://127.0.0.1:1", "--url", "a=http://127.0.0.1:2"), "two servers have one name"),
        (("--url", "http://127.0.0.1:1", "--cases", "c0"), "'c0' is no case"),
        (("--url", "http://127.0.0.1:1", "--tokenizer", "none"), "holds no tokenizer.json"),
    ],
)
def test_a_wrong_option_ends_with_a_sentence(
    options: tuple[str, ...], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """And code 1."""
    assert main(["bench", *options]) == 1
    assert words in capsys.readouterr().err


def test_the_first_listed_model_is_used() -> None:
    """Where none was named."""
    assert first_model(b'{"data": [{"id": "a"}, {"id": "b"}]}') == "a"
    with pytest.raises(ServerError, match="names no model"):
        first_model(b'{"data": []}')


def test_eviction_touches_only_what_is_there(tmp_path: Path) -> None:
    """Contents stay, missing paths are passed over."""
    (tmp_path / "x").write_text("kept")
    evict((tmp_path, tmp_path / "none"))
    assert (tmp_path / "x").read_text() == "kept"


async def test_a_server_that_ends_at_once_is_told_with_its_log(tmp_path: Path) -> None:
    """The reason is in what it wrote."""
    command = (sys.executable, "-c", "raise SystemExit('no such option')")
    server = Server(ServerSpec("bad", Address("127.0.0.1", 1), "m", command), tmp_path)
    with pytest.raises(ServerError, match=r"bad ended with code 1\.\nThe end of .*\nno such option"):
        await server.start(30)
    await server.stop()


def state_of(pid: int) -> str:
    """R, S, T and so on, from /proc."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


async def test_freezing_stops_the_whole_tree_until_thawed(tmp_path: Path) -> None:
    """The mock server: T for stopped while others have their turn; then it answers again, and ends when told to."""
    from tools.load.command import free_port

    port = free_port()
    command = (sys.executable, "-m", "tools.cli", "mock", "--port", str(port))
    server = Server(ServerSpec("mock", Address("127.0.0.1", port), command=command), tmp_path)
    try:
        took_s = await server.start(60)
        assert took_s is not None
        assert 0 < took_s < 60
        assert server.model == "mock"
        assert server.memory_mb() > 1
        (root,) = server.roots
        server.freeze()
        until_s = time.monotonic() + 10
        while state_of(root) != "T" and time.monotonic() < until_s:  # a signal takes effect when the kernel gets to it
            pass
        assert [state_of(stat.pid) for stat in trees([root])] == ["T"]
        server.thaw()
        assert await server._answers(30) == ""
    finally:
        await server.stop()
    assert process_stat(root) is None


TINY = (
    "--cases",
    "start,c1",
    "--tokens",
    "4",
    "--warm-starts",
    "1",
    "--quiet-below",
    "100",
    "--quiet-wait",
    "0",
)


@pytest.mark.weights
def test_two_mock_servers_are_compared_from_start_to_report(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Two rounds: a table with ratios, JSON with every start and turn, code 0."""
    file = tmp_path / "peers.yaml"
    entry = "{{url: 'http://127.0.0.1:{port}', command: '{python} -m tools.cli mock --port {port} {more}'}}"
    from tools.load.command import free_port

    entries = [
        f"{name}: " + entry.format(port=free_port(), python=sys.executable, more=more)
        for name, more in (("fast", ""), ("slow", "--step-delay-ms 20"))
    ]
    file.write_text("\n".join(entries))

    code = main(["bench", "--servers", str(file), "--json", str(tmp_path / "out.json"), "--rounds", "2", *TINY])

    shown = capsys.readouterr()
    document = json.loads((tmp_path / "out.json").read_text())
    assert code == 0, shown.out + shown.err
    assert "fast : slow" in shown.out
    assert "[7/8]" in shown.err
    assert len(document["turns"]) == 4
    assert document["ratios"]["c1"]["fast : slow"]["output_tok_s"]["median"] > 1
    assert [list(start) for start in document["starts"]["fast"]] == [["cold_s"], ["warm_s"]]
    assert all(turn["failures"] == [] and turn["short"] == 0 for turn in document["turns"])
    assert all(tokens > 100 for turn in document["turns"] for tokens in turn["prompt_tokens"])


@pytest.mark.weights
def test_a_stop_signal_ends_the_bench_and_its_servers(tmp_path: Path) -> None:
    """SIGTERM in the middle: what was measured is shown, and the server is gone."""
    command = [sys.executable, "-m", "tools.cli", "bench", "--serve=--dtype float32", "--logs", str(tmp_path), *TINY]
    bench = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert bench.stderr is not None
    for line in bench.stderr:
        if "cold start" in line:
            break
    started: list[int] = []
    until_s = time.monotonic() + 60
    while not started and time.monotonic() < until_s:
        started = [stat.pid for stat in trees([bench.pid]) if stat.pid != bench.pid]
    os.kill(bench.pid, signal.SIGTERM)
    _, errors = bench.communicate(timeout=60)

    assert started
    assert bench.returncode == 1
    assert "interrupted" in errors
    assert [pid for pid in started if process_stat(pid) is not None] == []


async def test_a_server_is_not_started_on_a_port_that_is_taken(tmp_path: Path) -> None:
    """Whoever listens there would be measured in its place."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        server = Server(ServerSpec("late", Address("127.0.0.1", port), "m", command=("sleep", "60")), tmp_path)
        with pytest.raises(ServerError, match=rf"^late: process {os.getpid()} listens on port {port} already\.$"):
            await server.start(1)
    assert not server.roots
