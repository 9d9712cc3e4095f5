"""Looks at what the deployment asks for: devices, a config.json and its weights."""

from __future__ import annotations

import re
from pathlib import Path, PurePosixPath

from handlers.config_file import ConfigError, ConfigFile, read_config
from tools.config.options import MODEL_PATH, located
from tools.config.weights import WeightsProblem, weights_facts
from tools.doctor.findings import Fault, NotSeen
from tools.doctor.patient import Patient
from tools.serving import PATH_VARIABLE


def visible(patient: Patient) -> str | Fault:
    """ASCEND_RT_VISIBLE_DEVICES: cards that are there, each once."""
    written, count = patient.variable("ASCEND_RT_VISIBLE_DEVICES"), len(patient.cards)
    if not written:
        return f"all {count}" if count > 1 else "the only one"
    parts = [part.strip() for part in written.split(",")]
    wrong = [part for part in parts if not re.fullmatch("[0-9]{1,5}", part) or int(part) >= count]
    twice = [part for place, part in enumerate(parts) if part in parts[:place]]
    if wrong or twice:
        allowed = "0" if count == 1 else f"numbers from 0 to {count - 1}, each once, with commas between"
        why = f"{wrong[0]!r} is no card here" if wrong else f"{twice[0]} stands there twice"
        return Fault(
            f"ASCEND_RT_VISIBLE_DEVICES is {written!r}, and {why}.",
            f"set it to {allowed}, or leave it away to see all cards.",
        )
    return written


def config(patient: Patient) -> str | Fault:
    """A config.json, where one is used."""
    path = patient.config_path or Path(patient.variable(PATH_VARIABLE))
    if path == Path():
        return "none is named"
    try:
        patient.config = read_config(patient.machine.path(str(path)))
    except ConfigError as error:
        more = f" ({len(error.faults)} faults in all)" if len(error.faults) > 1 else ""
        return Fault(f"{path}: {error.faults[0]}{more}", "`mindspec config check FILE` says all that is wrong with it.")
    return str(path)


def device_ids(patient: Patient) -> str | Fault:
    """npuDeviceIds: a set of cards for each instance, among those that are visible."""
    file, count = patient.config, len(patient.visible)
    ids = None if file is None else file.value("BackendConfig.npuDeviceIds")
    if file is None or ids is None:
        return "npuDeviceIds is not set: npu:0"
    instances = file.value("BackendConfig.modelInstanceNumber") or 1
    world_size = file.value(f"{MODEL_PATH}.worldSize") or 1
    beyond = [number for numbers in ids for number in numbers if number >= count]
    if beyond:
        seen = "npu:0" if count == 1 else f"npu:0 to npu:{count - 1}"
        return Fault(
            f"npuDeviceIds names {beyond[0]}, and a process here sees {seen}.",
            "name cards that are seen; they count from 0 among those of ASCEND_RT_VISIBLE_DEVICES.",
        )
    if len(ids) < instances:
        return Fault(
            f"npuDeviceIds has {len(ids)} sets for {instances} instances.",
            "give it a set of devices for each of modelInstanceNumber instances, as in [[0],[1]].",
        )
    if any(len(numbers) != world_size for numbers in ids[:instances]):
        return Fault(
            f"npuDeviceIds has a set that is not of worldSize ({world_size}) devices.",
            "give each instance as many devices as worldSize says.",
        )
    return f"npuDeviceIds is {ids}"


def weights(patient: Patient) -> str | Fault | NotSeen:
    """The weights of the config.json: whole, and readable for the server."""
    folder = None if patient.config is None else _weights_folder(patient, patient.config)
    if folder is None:
        return "none are named"
    user = patient.commands.user()
    try:
        patient.weights = weights_facts(folder)
        names = sorted(folder.iterdir())
    except WeightsProblem as error:
        return Fault(f"{error}.", "set modelWeightPath to a whole folder of weights that the server's user may read.")
    for place in (folder, *names) if user is not None else ():
        if not user_may(patient, place):
            return Fault(
                f"the server's user may not read {place}.",
                "give the folder of weights to that user (chown -R), or let its group read it (chmod -R g+rX).",
            )
    return f"{folder}, {patient.weights.size_bytes / 2**30:.1f} GiB"


def user_may(patient: Patient, place: Path) -> bool:
    """Whether the server's user may read a file, or a folder and what is in it."""
    user = patient.commands.user()
    try:
        return user is None or user.may(place.stat(), "rx" if place.is_dir() else "r")
    except OSError:
        return True  # a link to nothing, which is no part of the weights


def _weights_folder(patient: Patient, file: ConfigFile) -> Path | None:
    written = file.value(f"{MODEL_PATH}.modelWeightPath")
    if written is None:
        return None
    # A path that begins at the root of a copied machine begins at the root of the copy.
    return patient.machine.path(written) if PurePosixPath(written).is_absolute() else located(file, written)
