"""What several looks of the doctor ask of a machine, found once."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Final

from handlers.config_file import ConfigFile
from tools.config.weights import WeightsFacts
from tools.doctor.machine import Commands, Machine
from tools.doctor.smi import Chip

DRIVER_HOME: Final = "/usr/local/Ascend"
"""Where the driver is installed, unless its own note says otherwise."""
INSTALL_NOTE: Final = "/etc/ascend_install.info"
_CARD: Final = re.compile(r"v?davinci(\d+)")
"""A part of a card (vNPU) has a node that begins with v."""


class Patient:
    """A machine, and what has been found out about it."""

    def __init__(self, machine: Machine, commands: Commands, config: Path | None = None) -> None:
        """``config``: a config.json, as the machine names it; None takes the one that its environment names."""
        self.machine = machine
        self.commands = commands
        self.config_path = config
        self.chips: list[Chip] = []
        """Of npu-smi; empty until it has been asked."""
        self.config: ConfigFile | None = None
        """Set by the look at config.json."""
        self.weights: WeightsFacts | None = None
        """Set by the look at the weights."""

    @cached_property
    def environment(self) -> Mapping[str, str] | None:
        """Of the process that would serve."""
        return self.commands.environment()

    def variable(self, name: str) -> str:
        """A variable's value; empty where it is not set, or not known."""
        return (self.environment or {}).get(name, "")

    @cached_property
    def cards(self) -> list[str]:
        """Names of their device nodes, in the order of their numbers."""
        found = (_CARD.fullmatch(name) for name in self.machine.names("/dev"))
        return [card[0] for card in sorted((card for card in found if card is not None), key=lambda card: int(card[1]))]

    @cached_property
    def install_note(self) -> dict[str, str]:
        """What the driver's installation left."""
        return self.machine.values(INSTALL_NOTE)

    @cached_property
    def driver(self) -> str:
        """The driver's folder."""
        return f"{self.install_note.get('Driver_Install_Path_Param') or DRIVER_HOME}/driver"

    @cached_property
    def visible(self) -> list[int]:
        """Which cards, counted from 0, a process sees as npu:0 and so on; asked once the variable was looked at."""
        written = self.variable("ASCEND_RT_VISIBLE_DEVICES")
        return [int(part) for part in written.split(",")] if written else list(range(len(self.cards)))

    @property
    def device_sets(self) -> list[list[int]]:
        """The devices of each instance, as numbers among the visible ones."""
        found = None if self.config is None else self.config.value("BackendConfig.npuDeviceIds")
        return [[int(number) for number in numbers] for numbers in found] if found else [[0]]
