"""Where torch_npu lies, and the environment of a process that can import it here: CANN's libraries are stand-ins."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

SOURCE: Final = Path(__file__).with_name("acl_stand_in.c")
EMPTY: Final = ("hccl", "acl_op_compiler", "ge_runner", "graph", "acl_tdt_channel")
"""Libraries that torch_npu names beside libascendcl, which has all the functions."""
PACKAGES: Final = Path(os.environ.get("MINDSPEC_NPU_PACKAGES", Path(sys.prefix) / "npu"))
"""A folder for each version of torch_npu: outside of what Python finds, since torch imports it by itself there."""
VERSION: Final = "2.13.0"
OLDER: Final = "2.10.0.post4"


def package(version: str) -> Path:
    """The folder that torch_npu of a version is installed in."""
    return PACKAGES / version


def build(folder: Path) -> None:
    """Compile the stand-ins."""
    command = ["cc", "-shared", "-fPIC", "-O1", "-w", "-x", "c"]
    subprocess.run([*command, str(SOURCE), "-o", str(folder / "libascendcl.so")], check=True)
    for name in EMPTY:
        subprocess.run([*command, os.devnull, "-o", str(folder / f"lib{name}.so")], check=True)


def environment(libraries: Path, *, devices: int = 0, **more: str) -> dict[str, str]:
    """Of a process that finds the stand-ins; torch_npu is imported by ``tests/npu/inside/conftest.py``."""
    return {
        **os.environ,
        "LD_LIBRARY_PATH": str(libraries),
        "TORCH_DEVICE_BACKEND_AUTOLOAD": "0",
        "ACL_STAND_IN_DEVICES": str(devices),
        "MINDSPEC_INSIDE_NPU": "1",
        "OMP_NUM_THREADS": "1",
        **more,
    }
