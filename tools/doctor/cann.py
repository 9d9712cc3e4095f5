"""Looks at CANN: its variables, its folders, its version, and whether the linker finds its libraries."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Final

from tools.doctor.findings import Fault, NotSeen
from tools.doctor.packages import installed
from tools.doctor.patient import Patient
from tools.doctor.versions import NEWEST_CANN, OLDEST_CANN, PAIRS, numbers, pair_of

_SCRIPTS: Final = tuple(
    f"/usr/local/Ascend/{folder}/set_env.sh" for folder in ("cann", "ascend-toolkit", "nnae", "ascend-toolkit/latest")
)
_FOLDERS: Final = ("runtime", "compiler")
"""Without which torch_npu refuses to be imported."""
LIBRARIES: Final = ("libascendcl.so", "libhccl.so", "libacl_op_compiler.so", "libge_runner.so", "libgraph.so")
"""Which libtorch_npu.so is linked with."""
_SYSTEM_FOLDERS: Final = ("/lib64", "/usr/lib64", "/lib", "/usr/lib", "/usr/local/lib")


def variables(patient: Patient) -> str | Fault | NotSeen:
    """Whether CANN's set_env.sh was read by the shell that the server is started from."""
    if patient.environment is None:
        return NotSeen("the environment of the server is not known (--said has no env)")
    home = patient.variable("ASCEND_HOME_PATH")
    if home and patient.variable("ASCEND_OPP_PATH"):
        return f"ASCEND_HOME_PATH is {home}"
    missing = "ASCEND_OPP_PATH" if home else "ASCEND_HOME_PATH"
    scripts = [f"{home}/set_env.sh", f"{PurePosixPath(home).parent}/set_env.sh"] if home else []
    script = patient.machine.first(*scripts, *_SCRIPTS)
    if script is None:
        remedy = (
            f"install CANN {_advised(patient)} (toolkit, and the operators for this chip), and `source` its set_env.sh "
            "before the server starts."
        )
    else:
        remedy = f"`source {script}` in the shell or the unit that starts the server."
    return Fault(f"{missing} is not set, so torch_npu does not find CANN.", remedy)


def folders(patient: Patient) -> str | Fault:
    """What those variables point to."""
    home, opp = patient.variable("ASCEND_HOME_PATH"), patient.variable("ASCEND_OPP_PATH")
    wanted = {home: "ASCEND_HOME_PATH", **{f"{home}/{name}": "a part of CANN" for name in _FOLDERS}}
    wanted[opp] = "ASCEND_OPP_PATH"
    user = patient.commands.user()
    for folder, meaning in wanted.items():
        if not patient.machine.exists(folder):
            return Fault(
                f"there is no folder {folder} ({meaning}) that can be seen.",
                f"install all of CANN {_advised(patient)}, toolkit and operators, or `source` the set_env.sh of "
                "the one that is installed.",
            )
        if user is not None and not user.may(patient.machine.path(folder).stat(), "rx"):
            return Fault(
                f"user {user.uid} may not read {folder} ({meaning}).",
                "let others read it (`chmod -R o+rX`), as CANN's installer does with --install-for-all.",
            )
    return home


def version(patient: Patient) -> str | Fault | NotSeen:
    """Whether the operators of this CANN are those that torch_npu calls."""
    home = patient.variable("ASCEND_HOME_PATH")
    found = _version(patient, home)
    if found is None:
        return NotSeen(f"no file in {home} says which version it is")
    release = numbers(found)[:2]
    oldest, newest = ".".join(map(str, OLDEST_CANN)), ".".join(map(str, NEWEST_CANN))
    if release < OLDEST_CANN:
        return Fault(
            f"CANN {found} is too old: torch_npu {PAIRS[-1].torch_npu} and later work with CANN {oldest} to {newest}.",
            f"install CANN {_advised(patient)}, and a driver that its release notes name.",
        )
    if release > NEWEST_CANN:
        return f"CANN {found}, newer than what torch_npu {PAIRS[0].torch_npu} was released with ({newest})"
    return f"CANN {found}"


def libraries(patient: Patient) -> str | Fault:
    """Whether the linker finds the libraries of CANN that torch_npu is linked with."""
    machine = patient.machine
    named = [name for name in patient.variable("LD_LIBRARY_PATH").split(":") if name]
    for file in machine.names("/etc/ld.so.conf.d"):
        named += [line.strip() for line in (machine.text(f"/etc/ld.so.conf.d/{file}") or "").splitlines()]
    places = [*named, *_SYSTEM_FOLDERS]
    for library in LIBRARIES:
        if machine.first(*(f"{folder}/{library}" for folder in places if folder.startswith("/"))) is None:
            home = patient.variable("ASCEND_HOME_PATH")
            inside = machine.first(f"{home}/lib64/{library}")
            return Fault(
                f"the linker does not find {library}, without which torch_npu is not imported.",
                f"put {home}/lib64 into LD_LIBRARY_PATH, as CANN's set_env.sh does."
                if inside
                else f"{home}/lib64 lacks it: install CANN again, toolkit and operators.",
            )
    return f"the linker finds {', '.join(LIBRARIES)}"


def _advised(patient: Patient) -> str:
    """The CANN that the torch_npu for the installed torch is released with."""
    pair = pair_of(installed("torch", patient.commands.package_folders()) or "")
    return (pair or PAIRS[0]).cann


def _version(patient: Patient, home: str) -> str | None:
    """As the notes of CANN's installation have it."""
    machine = patient.machine
    for folder in (home, *(f"{home}/{name}" for name in machine.names(home) if name.endswith("-linux"))):
        for file in machine.names(folder):
            if file.startswith("ascend_") and file.endswith("_install.info"):
                found = machine.values(f"{folder}/{file}").get("version")
                if found and numbers(found):
                    return found
    values = machine.values(f"{patient.variable('ASCEND_OPP_PATH')}/version.info")
    found = values.get("version_dir") or values.get("Version")
    return found if found and numbers(found) else None
