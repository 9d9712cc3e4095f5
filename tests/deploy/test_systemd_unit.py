"""The systemd unit: accepted by systemd, and its times and codes fit the server's."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from deploy_files import UNIT, unit

from handlers import exit_codes, plane_server
from tools.cli import _parser


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="no systemd-analyze on this machine")
def test_systemd_finds_nothing_wrong(tmp_path: Path) -> None:
    """With a program in the place of the one that is installed."""
    program = tmp_path / "mindspec"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    copy = tmp_path / UNIT.name
    copy.write_text(UNIT.read_text(encoding="utf-8").replace("/usr/local/lib/mindspec/bin/mindspec", str(program)))
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", copy], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_the_command_is_one_that_the_server_takes() -> None:
    """The file that it names is the operator's."""
    program, *command = unit()["ExecStart"].split()
    assert program.endswith("/bin/mindspec")
    assert str(_parser().parse_args(command).config) == "/etc/mindspec/config.json"


def test_a_stop_is_longer_than_a_drain() -> None:
    """And closing what is left."""
    longest_s = _parser().parse_args(["serve"]).drain_timeout + plane_server.CLOSE_TIME_S
    assert longest_s < float(unit()["TimeoutStopSec"])


def test_only_what_another_try_may_mend_is_started_again() -> None:
    """Crash loops and a port in use are tried again; a draining end is none of a failure."""
    never = {int(code) for code in unit()["RestartPreventExitStatus"].split()}
    assert never == {exit_codes.USAGE, exit_codes.WEIGHTS, exit_codes.DEVICE, exit_codes.CONFIG}
    assert unit()["Restart"] == "on-failure"
