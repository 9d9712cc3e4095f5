"""Looks at the host's memory, at its disks, and at the folder that CANN writes to."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Final

from tools.doctor.findings import Fault, NotSeen
from tools.doctor.patient import Patient

LEAST_MEMORY_BYTES: Final = 2 << 30
"""For Python, torch and CANN's runtime, beside the weights."""
LEAST_DISK_BYTES: Final = 1 << 30
"""For logs and for kernels that are compiled at first use."""


def host_memory(patient: Patient) -> str | Fault | NotSeen:
    """Weights pass through the host's memory on their way to a card."""
    available = patient.commands.available_bytes()
    if available is None:
        return NotSeen("/proc/meminfo does not say what is available")
    need = LEAST_MEMORY_BYTES + (0 if patient.weights is None else patient.weights.size_bytes)
    if available < need:
        return Fault(
            f"{_gib(available)} of the host's memory are available, and loading needs {_gib(need)}.",
            "end other processes, or give the container or machine more memory.",
        )
    return f"{_gib(available)} are available"


def log_folder(patient: Patient) -> str | Fault | NotSeen:
    """CANN's log and what it compiles lie below HOME, unless variables say otherwise."""
    user = patient.commands.user()
    if patient.environment is None or user is None:
        return NotSeen("it is not known who would run the server, or with which HOME (--said has no env or no id)")
    folder = _log_folder(patient)
    there = patient.machine.path(folder)
    if not there.is_dir() or not user.may(there.stat(), "wx"):
        return Fault(
            f"user {user.uid} may not write to {folder}, where CANN puts its logs and what it compiles.",
            "set HOME, or ASCEND_WORK_PATH and ASCEND_PROCESS_LOG_PATH, to a folder that the user may write to.",
        )
    return folder


def disk(patient: Patient) -> str | Fault | NotSeen:
    """Room for logs, compiled kernels and temporary files."""
    free = {name: patient.commands.free_bytes(name) for name in dict.fromkeys((_log_folder(patient), "/tmp"))}
    known = {name: count for name, count in free.items() if count is not None}
    if not known:
        return NotSeen("it is not known how much room there is (--said has no df)")
    name, least = min(known.items(), key=lambda item: item[1])
    if least < LEAST_DISK_BYTES:
        return Fault(
            f"{name} has {least / 2**20:.0f} MiB left, and logs and compiled kernels need {_gib(LEAST_DISK_BYTES)}.",
            "remove what is old there (such as logs in ascend/log), or move HOME and TMPDIR to a larger disk.",
        )
    return f"{_gib(least)} are free at {name}"


def _log_folder(patient: Patient) -> str:
    """The nearest folder above CANN's log that is there."""
    home = patient.variable("HOME") or "/"
    folder = PurePosixPath(patient.variable("ASCEND_PROCESS_LOG_PATH") or f"{home}/ascend/log")
    places = (folder, *folder.parents)
    return next((str(place) for place in places if patient.machine.exists(str(place))), "/")


def _gib(count: int) -> str:
    return f"{count / 2**30:.1f} GiB"
