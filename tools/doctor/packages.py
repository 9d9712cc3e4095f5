"""Looks at the installed torch and torch_npu, by their metadata on disk: neither is imported."""

from __future__ import annotations

from importlib.metadata import Distribution
from pathlib import Path

from tools.doctor.findings import Fault
from tools.doctor.patient import Patient
from tools.doctor.versions import OLDEST_TORCH_NPU, PAIRS, numbers, pair_of


def torch(patient: Patient) -> str | Fault:
    """Whether torch is installed."""
    found = installed("torch", patient.commands.package_folders())
    if found is None:
        return Fault(
            "torch is not installed in the Python that serves.",
            f"pip install torch=={PAIRS[0].torch} torch_npu=={PAIRS[0].torch_npu} (a build for the CPU is enough).",
        )
    return f"torch {found}"


def torch_npu(patient: Patient) -> str | Fault:
    """Whether torch_npu is installed, and is one whose operators are known here."""
    folders = patient.commands.package_folders()
    found = installed("torch_npu", folders)
    if found is None:
        pair = pair_of(installed("torch", folders) or "")
        wanted = (
            f"pip install torch_npu=={pair.torch_npu}, which is for the torch that is installed."
            if pair
            else f"pip install torch=={PAIRS[0].torch} torch_npu=={PAIRS[0].torch_npu}."
        )
        return Fault("torch_npu is not installed in the Python that serves.", wanted)
    if numbers(found)[:2] < OLDEST_TORCH_NPU:
        return Fault(
            f"torch_npu {found} is too old: its operators differ from those that are called here.",
            f"pip install torch=={PAIRS[0].torch} torch_npu=={PAIRS[0].torch_npu}, or {PAIRS[-1].torch} and "
            f"{PAIRS[-1].torch_npu}.",
        )
    return f"torch_npu {found}"


def fit(patient: Patient) -> str | Fault:
    """Whether that torch_npu was built for that torch: the first three numbers are equal."""
    folders = patient.commands.package_folders()
    has, npu = installed("torch", folders) or "", installed("torch_npu", folders) or ""
    built_for = ".".join(map(str, numbers(npu)[:3]))
    if numbers(npu)[:3] != numbers(has)[:3]:
        pair = pair_of(has)
        remedy = f"pip install torch=={built_for}"
        remedy += f", or torch_npu=={pair.torch_npu} for the torch that is installed." if pair else "."
        return Fault(f"torch_npu {npu} is built for torch {built_for}, and torch {has} is installed.", remedy)
    return f"torch {has} with torch_npu {npu}"


def installed(name: str, folders: list[Path]) -> str | None:
    """The version of a package in the first folder that has it."""
    for folder in folders:
        for place in sorted(folder.glob(f"{name}-*.dist-info")):
            if place.name.partition("-")[0] == name and (place / "METADATA").is_file():
                return Distribution.at(place).version
    return None
