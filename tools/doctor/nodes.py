"""Looks at the device nodes in /dev: those of the cards, those of the driver's managers, and who may open them."""

from __future__ import annotations

import stat
from typing import Final

from tools.doctor.findings import Fault, NotSeen
from tools.doctor.patient import Patient

MANAGERS: Final = ("davinci_manager", "devmm_svm", "hisi_hdc")
"""What every process with a card opens besides it."""


def cards(patient: Patient) -> str | Fault:
    """A node for each card."""
    if not patient.cards:
        if patient.machine.is_container:
            remedy = (
                "start the container with --device /dev/davinci0 (one for each card) and --device for each of "
                f"{', '.join(f'/dev/{name}' for name in MANAGERS)}, or with Ascend Docker Runtime and "
                "ASCEND_VISIBLE_DEVICES=0."
            )
        else:
            remedy = (
                "see whether `lspci | grep -i accelerators` names a card; if it does, install the NPU's driver and "
                "firmware and restart the machine. Without a card, --device cpu runs the model on the CPU."
            )
        return Fault("there is no device node of a card (/dev/davinci0 and so on).", remedy)
    return ", ".join(f"/dev/{name}" for name in patient.cards)


def managers(patient: Patient) -> str | Fault:
    """The nodes beside them."""
    missing = [f"/dev/{name}" for name in MANAGERS if not patient.machine.exists(f"/dev/{name}")]
    if missing:
        if patient.machine.is_container:
            remedy = f"start the container with {' '.join(f'--device {name}' for name in missing)} as well."
        else:
            remedy = (
                "the driver is loaded in part: restart the machine, and install the driver again if that is no help."
            )
        are = "is" if len(missing) == 1 else "are"
        return Fault(f"{', '.join(missing)} {are} missing, without which no process can open a card.", remedy)
    return ", ".join(f"/dev/{name}" for name in MANAGERS)


def permissions(patient: Patient) -> str | Fault | NotSeen:
    """Who may read and write them."""
    user = patient.commands.user()
    if user is None:
        return NotSeen("it is not known who would run the server (--said has no id)")
    names = [*patient.cards, *MANAGERS]
    for name in names:
        found = patient.machine.path(f"/dev/{name}").stat()
        if user.may(found, "rw"):
            continue
        mode = stat.S_IMODE(found.st_mode)
        what = (
            f"user {user.uid} may not read and write /dev/{name} (owner {found.st_uid}, group {found.st_gid}, mode "
            f"{mode:04o})."
        )
        group = patient.install_note.get("UserGroup") or "HwHiAiUser"
        if mode & 0o060 != 0o060:
            remedy = (
                f"root may give group {group} access, with chgrp and chmod 660 on each node; or run the server as root."
            )
        elif patient.machine.is_container:
            remedy = f"start the container with --group-add {found.st_gid}, the nodes' group, or as root."
        else:
            remedy = f"put the user into group {found.st_gid} (`usermod -aG {group} USER`) and log in anew."
        return Fault(what, remedy)
    return f"user {user.uid} may open them"
