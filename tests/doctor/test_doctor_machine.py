"""How the doctor sees a machine: links, tables of npu-smi, the present process; and what it does not import."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tools.doctor import driver, machine
from tools.doctor.findings import Fault
from tools.doctor.machine import Copied, Here, Machine, User
from tools.doctor.patient import Patient
from tools.doctor.smi import Chip, chips_of
from tools.doctor.versions import PAIRS, numbers, pair_of

DUO = """\
| NPU     Name                  | Health          | Power(W)     Temp(C)           Hugepages-Usage(page) |
| Chip    Device                | Bus-Id          | AICore(%)    Memory-Usage(MB)                        |
+===============================+=================+======================================================+
| 1       310P3                 | OK              | NA           49                0     / 0             |
| 0       0                     | 0000:01:00.0    | 0            1448 / 44278                            |
+-------------------------------+-----------------+------------------------------------------------------+
| 1       310P3                 | Warning         | NA           45                0     / 0             |
| 1       1                     | 0000:01:00.0    | 0            1511 / 43693                            |
+===============================+=================+======================================================+
| NPU     Chip                  | Process id      | Process name             | Process memory(MB)        |
| 1       0                     | 1712733         | python                   | 1000                      |
"""
TWO_DIES = """\
| 0     Ascend910           | OK            | 210.8       52                0    / 0             |
| 0                         | 0000:C1:00.0  | 30          0    / 0          1024 / 65536         |
| 1                         | 0000:C1:00.1  | 70          0    / 0          2048 / 65536         |
"""


def test_a_card_with_a_row_for_each_chip() -> None:
    """Two rows for each chip, and processes are no chips."""
    assert chips_of(DUO) == [Chip(1, "310P3", "OK", 1448, 44278), Chip(1, "310P3", "Warning", 1511, 43693)]


def test_a_card_with_two_dies_under_one_row() -> None:
    """Name and health are those of the card; of several pairs of numbers the last is the memory."""
    assert chips_of(TWO_DIES) == [Chip(0, "Ascend910", "OK", 1024, 65536), Chip(0, "Ascend910", "OK", 2048, 65536)]


def test_no_table() -> None:
    """What npu-smi prints when it fails has no chips."""
    assert chips_of("dcmi model initialized failed, because the device is used. ret is -8020") == []


MEGABYTES = st.integers(0, 99999)
CHIPS = st.builds(
    Chip,
    st.integers(0, 40000),
    st.sampled_from(["910B3", "910B4-1", "Ascend910", "310P3"]),
    st.sampled_from(["OK", "Warning", "Alarm", "Critical", "UNKNOWN"]),
    MEGABYTES,
    MEGABYTES,
)


@given(st.lists(CHIPS, max_size=4))
def test_a_table_is_read_as_it_was_written(chips: list[Chip]) -> None:
    """Whatever the numbers, with a row of processes below."""
    rows = [
        f"| {chip.npu:<6}{chip.name:<19} | {chip.health:<13} | 90.1   41   0    / 0 |\n"
        f"| 0                         | 0000:C1:00.0  | 0   0    / 0   {chip.used_mb:<5}/ {chip.total_mb:<5} |"
        for chip in chips
    ]
    assert chips_of("\n".join([*rows, "| 0     0       | 4711     | python    | 1200 |"])) == chips


@given(st.text())
def test_any_text_may_come_from_npu_smi(text: str) -> None:
    """None of it raises."""
    assert isinstance(chips_of(f"| {text} | OK | {text} |\n{text}"), list)


def test_links_stay_in_a_copy(tmp_path: Path) -> None:
    """A link to a path that begins at the root, and one upwards, lead into the copy; one to itself ends."""
    (tmp_path / "usr/a").mkdir(parents=True)
    (tmp_path / "usr/a/file").write_text("here")
    (tmp_path / "usr/absolute").symlink_to("/usr/a")
    (tmp_path / "usr/upwards").symlink_to("../../../usr/a")
    (tmp_path / "usr/itself").symlink_to("itself")
    copy = Machine(tmp_path)
    assert copy.text("/usr/absolute/file") == copy.text("/usr/upwards/file") == "here"
    assert not copy.exists("/usr/itself/file")


def test_whom_a_mode_lets_in(tmp_path: Path) -> None:
    """Owner, group and others by their own bits alone; root always."""
    tmp_path.chmod(0o740)
    found = tmp_path.stat()
    owner, group = found.st_uid, found.st_gid
    assert User(owner or 1, frozenset()).may(found, "w") is (owner != 0)
    assert User(owner + 1, frozenset({group})).may(found, "r")
    assert not User(owner + 1, frozenset({group})).may(found, "rw")
    assert not User(owner + 1, frozenset({group + 1})).may(found, "r")
    assert User(0, frozenset()).may(found, "rwx")


def test_who_would_serve_by_what_id_printed(tmp_path: Path) -> None:
    """The groups are those of the list, and the user's own; without the command's words nobody knows."""
    copied = Copied(Machine(tmp_path), tmp_path)
    assert copied.user() is None
    (tmp_path / "id").write_text("uid=1000(serve) gid=1000(serve) groups=1000(serve),27(sudo),1002(HwHiAiUser)\n")
    assert copied.user() == User(1000, frozenset({1000, 27, 1002}))


def patient_with_npu_smi(folder: Path, script: str) -> Patient:
    """This process's machine, with an npu-smi of the test's below ``folder``."""
    program = folder / "usr/local/bin/npu-smi"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)

    class There(Here):
        def npu_smi(self, name: str) -> str:
            return super().npu_smi(str(folder / name.lstrip("/")))

    return Patient(Machine(folder), There())


def test_npu_smi_is_run_on_this_machine(tmp_path: Path) -> None:
    """Its table is read."""
    (tmp_path / "table").write_text(TWO_DIES)
    found = driver.npu_smi(patient_with_npu_smi(tmp_path, f"[ $1 = info ] && cat {tmp_path}/table"))
    assert found == "2 chips: Ascend910"


def test_npu_smi_that_hangs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is ended, and said."""

    def hang(command: list[str], **_: Any) -> None:
        raise subprocess.TimeoutExpired(command, machine.NPU_SMI_TIMEOUT_S)

    monkeypatch.setattr(subprocess, "run", hang)
    found = driver.npu_smi(patient_with_npu_smi(tmp_path, "true"))
    assert isinstance(found, Fault)
    assert found.what == "npu-smi gives no answer within 30 s."


def test_this_machine() -> None:
    """The present process: its user, memory, disk and packages."""
    here = Here()
    assert here.user().uid == os.geteuid()
    assert here.available_bytes() > 0
    assert (here.free_bytes("/tmp") or 0) > 0
    assert here.free_bytes("/no such folder") is None
    assert Path(sys.path[-1]) in here.package_folders()


def test_the_doctor_imports_neither_torch_nor_torch_npu() -> None:
    """It has to work where they do not."""
    script = (
        "import sys\nfrom tools.cli import main\nmain(['doctor'])\n"
        "assert not {'torch', 'torch_npu', 'transformers'} & set(sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=Path(__file__).parents[2], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_pairs_are_built_for_their_torch() -> None:
    """A torch_npu has the numbers of its torch, and a torch finds its own."""
    assert [numbers(pair.torch_npu)[:3] for pair in PAIRS] == [numbers(pair.torch) for pair in PAIRS]
    assert pair_of("2.10.0+cpu") == PAIRS[-1]
    assert pair_of("2.9.1") is None
    assert numbers("8.3.RC1") == (8, 3)
    assert numbers("unknown") == ()
