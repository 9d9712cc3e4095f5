"""The options of `mindspec doctor`, and its page."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from tools.doctor.findings import Finding

FOUND: Final = 1
USAGE: Final = 2
_ABOUT: Final = """\
Says on one page what of this machine, or of a copy of its files, keeps a model from running on an Ascend NPU: device
nodes, driver, npu-smi, CANN, torch and torch_npu, devices that are asked for, memory, permissions and disk. Each fault
comes with its remedy. Nothing is changed, and neither torch nor torch_npu is imported.
--root DIR looks at the files of another machine or container, whose root folder DIR is. What `env`, `id`, `df -Pk` and
`npu-smi info` printed there is read in the folder --said, from files named env, id, df and npu-smi.
Exit code: 0 no fault, 1 faults, 2 the command line is wrong."""
_WIDTH: Final = 22


def add_doctor(commands: Any) -> None:
    """The command `doctor`; ``commands``: what ``add_subparsers`` gave."""
    doctor = commands.add_parser(
        "doctor",
        help="say what keeps a model from running on an NPU",
        description=_ABOUT,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    doctor.add_argument("--root", type=Path, metavar="DIR", help="the root folder of another; this machine if absent")
    doctor.add_argument("--said", type=Path, metavar="DIR", help="what commands printed there; ROOT/said if absent")
    doctor.add_argument(
        "--config", type=Path, metavar="FILE", help="a config.json there; that of MIES_CONFIG_JSON_PATH if absent"
    )
    doctor.add_argument("--json", action="store_true", help="as JSON")
    doctor.set_defaults(run=run)


def run(given: argparse.Namespace) -> int:
    """Look, and print the page; returns the exit code."""
    from tools.doctor.findings import Fault, taken
    from tools.doctor.looks import LOOKS
    from tools.doctor.machine import Copied, Here, Machine
    from tools.doctor.patient import Patient

    if given.root is not None and not given.root.is_dir():
        print(f"mindspec: there is no folder {given.root}, which --root names")
        return USAGE
    machine = Machine(given.root or Path("/"))
    commands = Here() if given.root is None else Copied(machine, given.said or given.root / "said")
    findings = list(taken(LOOKS, Patient(machine, commands, given.config)))
    print(_json(findings) if given.json else _page(findings))
    return FOUND if any(isinstance(finding.found, Fault) for finding in findings) else 0


def _page(findings: Sequence[Finding]) -> str:
    from tools.doctor.findings import Fault, NotSeen

    lines = []
    for finding in findings:
        found = finding.found
        if isinstance(found, Fault):
            lines += [f"FAULT {finding.name:{_WIDTH}}{found.what}", f"{'':6}{'Remedy:':{_WIDTH}}{found.remedy}"]
        elif isinstance(found, NotSeen):
            lines.append(f"-     {finding.name:{_WIDTH}}not looked at: {found.why}")
        else:
            lines.append(f"ok    {finding.name:{_WIDTH}}{found}")
    count = sum(isinstance(finding.found, Fault) for finding in findings)
    lines.append(f"{count or 'no'} fault{'s' * (count != 1)}")
    return "\n".join(lines)


def _json(findings: Sequence[Finding]) -> str:
    from tools.doctor.findings import Fault, NotSeen

    rows = []
    for finding in findings:
        found = finding.found
        if isinstance(found, Fault):
            rows.append({"look": finding.name, "state": "fault", "found": found.what, "remedy": found.remedy})
        elif isinstance(found, NotSeen):
            rows.append({"look": finding.name, "state": "not looked at", "found": found.why})
        else:
            rows.append({"look": finding.name, "state": "ok", "found": found})
    return json.dumps(rows, indent=1, ensure_ascii=False)
