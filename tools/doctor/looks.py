"""All looks of the doctor in their order, each after those whose faults would explain what it finds."""

from __future__ import annotations

from typing import Final

from tools.doctor import asked, cann, driver, nodes, packages, room
from tools.doctor.findings import Look
from tools.doctor.patient import Patient

LOOKS: Final[tuple[Look[Patient], ...]] = (
    Look("cards", nodes.cards),
    Look("managers", nodes.managers, ("cards",)),
    Look("permissions", nodes.permissions, ("managers",)),
    Look("driver", driver.driver, ("cards",)),
    Look("npu-smi", driver.npu_smi, ("managers", "permissions", "driver")),
    Look("health", driver.health, ("npu-smi",)),
    Look("kind of card", driver.kinds, ("npu-smi",)),
    Look("CANN's variables", cann.variables),
    Look("CANN's folders", cann.folders, ("CANN's variables",)),
    Look("CANN's version", cann.version, ("CANN's folders",)),
    Look("CANN's libraries", cann.libraries, ("CANN's folders",)),
    Look("torch", packages.torch),
    Look("torch_npu", packages.torch_npu, ("torch",)),
    Look("torch with torch_npu", packages.fit, ("torch_npu",)),
    Look("visible cards", asked.visible, ("cards",)),
    Look("config.json", asked.config),
    Look("device ids", asked.device_ids, ("visible cards", "config.json")),
    Look("weights", asked.weights, ("config.json",)),
    Look("memory of cards", driver.card_memory, ("npu-smi", "health", "kind of card", "device ids", "weights")),
    Look("memory of the host", room.host_memory, ("weights",)),
    Look("log folder", room.log_folder),
    Look("disk", room.disk, ("log folder",)),
)
