"""Looks at the driver's files, at npu-smi, and at what that says of each chip: health, kind and memory."""

from __future__ import annotations

import re
from typing import Final

from tools.doctor.findings import Fault, NotSeen
from tools.doctor.patient import Patient
from tools.doctor.smi import Chip, chips_of

_LIBRARY: Final = "libascend_hal.so"
_SMI_FOLDERS: Final = ("/usr/local/bin", "/usr/local/sbin", "/usr/bin", "/usr/sbin")
_CODES: Final = {
    "-8005": "another container may hold the card, or this one lacks a device node: stop the other one, and start this "
    "one with --device for the card and for its managers.",
    "-8020": "another process or container holds the card: stop it, or take another card.",
}
"""Numbers that npu-smi ends with, and what is behind them."""
_NO_ANSWER: Final = (
    "see whether the driver is loaded (`lsmod | grep drv_`) and restart the machine; if that is no help, install "
    "driver and firmware of one release."
)
_NO_KERNELS: Final = ("310", "910A", "910Pro", "910Premium")
"""Beginnings of names of chips that torch_npu's fused attention and its writing of pages are not made for."""
LEAST_PAGES_BYTES: Final = 1 << 30
"""For keys and values, where nobody says how much they need."""
RESERVE_BYTES: Final = 1 << 30
"""As in ``engine.card_memory``, which imports torch."""


def driver(patient: Patient) -> str | Fault:
    """The driver's version file and library."""
    machine, home = patient.machine, patient.driver
    note, folder = f"{home}/version.info", f"{home}/lib64"
    library = machine.first(*(f"{folder}/{part}{_LIBRARY}" for part in ("", "driver/", "common/")))
    missing = ([] if machine.exists(note) else [note]) + ([] if library else [f"{folder}/driver/{_LIBRARY}"])
    if missing:
        if machine.is_container:
            remedy = f"start the container with -v {folder}:{folder}:ro -v {note}:{note}:ro."
        else:
            remedy = "install the NPU's driver (Ascend HDK) for this card and restart the machine."
        return Fault(f"of the driver {' and '.join(missing)} cannot be found.", remedy)
    values = machine.values(note)
    return f"driver {values.get('package_version') or values.get('Version') or 'of an unknown version'} in {home}"


def npu_smi(patient: Patient) -> str | Fault | NotSeen:
    """Whether npu-smi is there, works and lists the cards."""
    folders = [*_SMI_FOLDERS, *(name for name in patient.variable("PATH").split(":") if name.startswith("/"))]
    program = patient.machine.first(*(f"{folder}/npu-smi" for folder in folders))
    if program is None:
        if patient.machine.is_container:
            remedy = (
                "start the container with -v /usr/local/bin/npu-smi:/usr/local/bin/npu-smi:ro "
                "-v /usr/local/dcmi:/usr/local/dcmi:ro."
            )
        else:
            remedy = "it comes with the driver: install that again, or put npu-smi's folder into PATH."
        return Fault("npu-smi, which tells the health and memory of cards, cannot be found.", remedy)
    try:
        printed = patient.commands.npu_smi(program)
    except TimeoutError:
        return Fault(
            "npu-smi gives no answer within 30 s.",
            "a card or the driver hangs: `dmesg` may say which; restart the machine.",
        )
    if printed is None:
        return NotSeen("--said has no npu-smi, with what `npu-smi info` printed")
    patient.chips = chips_of(printed)
    if not patient.chips:
        code = re.search(r"ret is (-?\d+)", printed)
        reason = next((line.strip() for line in reversed(printed.splitlines()) if line.strip()), "it printed nothing")
        return Fault(f"npu-smi lists no card: {reason[:200]}", _CODES.get(code[1] if code else "", _NO_ANSWER))
    return f"{len(patient.chips)} chip{'s' * (len(patient.chips) != 1)}: {', '.join(_kinds(patient.chips))}"


def health(patient: Patient) -> str | Fault:
    """What npu-smi calls every chip."""
    ill = [chip for chip in patient.chips if chip.health != "OK"]
    if ill:
        return Fault(
            f"npu-smi calls NPU {ill[0].npu} ({ill[0].name}) {ill[0].health}, not OK"
            + (f", and {len(ill) - 1} more." if len(ill) > 1 else "."),
            f"`npu-smi info -t health -i {ill[0].npu}` names the fault; leave the card out with "
            "ASCEND_RT_VISIBLE_DEVICES until it is mended, or restart the machine.",
        )
    return "OK"


def kinds(patient: Patient) -> str | Fault:
    """Whether the operators are made for such chips."""
    unfit = [chip for chip in patient.chips if chip.name.removeprefix("Ascend").startswith(_NO_KERNELS)]
    if unfit:
        return Fault(
            f"NPU {unfit[0].npu} is a {unfit[0].name}, and torch_npu's fused attention and its writing of pages are "
            "made for Atlas A2 and A3 (910B and later).",
            "serve from an Atlas A2 or A3, or on the CPU with --device cpu.",
        )
    return ", ".join(_kinds(patient.chips))


def card_memory(patient: Patient) -> str | Fault:
    """Whether weights and pages fit into what is free on the cards that would be used."""
    per_set = max(len(numbers) for numbers in patient.device_sets)
    weights_bytes = 0 if patient.weights is None else patient.weights.size_bytes // per_set
    need = weights_bytes + _pages_bytes(patient) + RESERVE_BYTES
    for number in sorted({number for numbers in patient.device_sets for number in numbers}):
        place = patient.visible[number]
        if place >= len(patient.chips):
            continue  # of another container
        chip = patient.chips[place]
        free = (chip.total_mb - chip.used_mb) << 20
        if chip.total_mb << 20 < need:
            return Fault(
                f"npu:{number} has {_gib(chip.total_mb << 20)}, and weights, keys and values need {_gib(need)}.",
                "give the model more cards (worldSize), a smaller npuMemSize or quantised weights.",
            )
        if free < need:
            return Fault(
                f"npu:{number} has {_gib(free)} of {_gib(chip.total_mb << 20)} free, and {_gib(need)} are needed.",
                "end the processes that `npu-smi info` lists at its end, or take other cards with "
                "ASCEND_RT_VISIBLE_DEVICES.",
            )
    return f"{_gib(need)} are free where they are needed"


def _pages_bytes(patient: Patient) -> int:
    path = "BackendConfig.ModelDeployConfig.ModelConfig[0].npuMemSize"
    asked = None if patient.config is None else patient.config.value(path)
    return int(asked) << 30 if asked is not None and asked > 0 else LEAST_PAGES_BYTES


def _kinds(chips: list[Chip]) -> list[str]:
    return sorted({chip.name for chip in chips})


def _gib(count: int) -> str:
    return f"{count / 2**30:.1f} GiB"
