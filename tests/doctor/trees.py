"""Made copies of a machine: one on which all is well, and what is changed to make it ill."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Final

UID: Final = 54321
"""Who would serve; nobody whom the tests run as, since their files would be his."""
ENV: Final = {
    "ASCEND_HOME_PATH": "/usr/local/Ascend/cann",
    "ASCEND_OPP_PATH": "/usr/local/Ascend/cann/opp",
    "LD_LIBRARY_PATH": "/usr/local/Ascend/cann/lib64:/usr/local/Ascend/driver/lib64/driver",
    "HOME": "/data/home",
    "VIRTUAL_ENV": "/data/venv",
    "MIES_CONFIG_JSON_PATH": "/data/conf/config.json",
}
LIBRARIES: Final = ("libascendcl.so", "libhccl.so", "libacl_op_compiler.so", "libge_runner.so", "libgraph.so")
SMI: Final = """\
+------------------------------------------------------------------------------------------------+
| npu-smi 25.5.1                   Version: 25.5.1                                               |
+---------------------------+---------------+----------------------------------------------------+
| NPU   Name                | Health        | Power(W)    Temp(C)           Hugepages-Usage(page)|
| Chip                      | Bus-Id        | AICore(%)   Memory-Usage(MB)  HBM-Usage(MB)        |
+===========================+===============+====================================================+
| 0     910B3               | OK            | 101.8       43                0    / 0             |
| 0                         | 0000:C1:00.0  | 0           0    / 0          3318 / 65536         |
+===========================+===============+====================================================+
| 1     910B3               | OK            | 92.0        39                0    / 0             |
| 0                         | 0000:C2:00.0  | 0           0    / 0          3314 / 65536         |
+===========================+===============+====================================================+
+---------------------------+---------------+----------------------------------------------------+
| NPU     Chip              | Process id    | Process name             | Process memory(MB)      |
+===========================+===============+====================================================+
| No running processes found in NPU 0                                                            |
+===========================+===============+====================================================+
"""
DF: Final = """\
Filesystem     1024-blocks      Used Available Capacity Mounted on
overlay          103081248  40000000  63081248      39% /
/dev/vda1        412716032  12716032 400000000       4% /data
"""


class Tree:
    """A copied machine in a folder."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def write(self, name: str, text: str = "", mode: int = 0o644) -> None:
        """A file, and the folders above it."""
        file = self.root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
        file.chmod(mode)

    def remove(self, *names: str) -> None:
        """Files."""
        for name in names:
            (self.root / name).unlink()

    def replace(self, name: str, old: str, new: str) -> None:
        """A part of a file's text, which must be there."""
        text = (self.root / name).read_text(encoding="utf-8")
        assert old in text
        self.write(name, text.replace(old, new))

    def env(self, **variables: str | None) -> None:
        """Variables beside the usual ones; None takes one away."""
        values = {**ENV, **variables}
        self.write("said/env", "".join(f"{name}={value}\n" for name, value in values.items() if value is not None))

    def config(self, **changes: object) -> None:
        """Keys of the backend's or of the model's section."""
        of_model = {"worldSize", "npuMemSize", "modelWeightPath"}
        model = {"modelName": "m", "modelWeightPath": "/data/weights", "worldSize": 1, "npuMemSize": -1}
        backend: dict[str, object] = {"npuDeviceIds": [[0]]}
        for name, value in changes.items():
            (model if name in of_model else backend)[name] = value
        backend["ModelDeployConfig"] = {"ModelConfig": [model]}
        self.write("data/conf/config.json", json.dumps({"ServerConfig": {}, "BackendConfig": backend}))

    def package(self, name: str, version: str | None) -> None:
        """An installed package's metadata; no version takes the package away."""
        folder = self.root / "data/venv/lib/python3.11/site-packages"
        for old in folder.glob(f"{name}-*.dist-info/METADATA"):
            old.unlink()
        if version is None:
            return
        self.write(
            f"{folder.relative_to(self.root)}/{name}-{version}.dist-info/METADATA",
            f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        )


def healthy(root: Path) -> Tree:
    """A host with two cards, on which a model would run."""
    tree = Tree(root)
    for name in ("davinci0", "davinci1", "davinci_manager", "devmm_svm", "hisi_hdc"):
        tree.write(f"dev/{name}", mode=0o666)
    tree.write("etc/ascend_install.info", "UserName=HwHiAiUser\nUserGroup=HwHiAiUser\n")
    tree.write("usr/local/Ascend/driver/version.info", "Version=25.5.1\npackage_version=25.5.1\n")
    tree.write("usr/local/Ascend/driver/lib64/driver/libascend_hal.so")
    tree.write("usr/local/bin/npu-smi")
    home = "usr/local/Ascend/cann-9.2.0"
    (root / "usr/local/Ascend/cann").symlink_to("/usr/local/Ascend/cann-9.2.0")
    for folder in ("runtime", "compiler", "opp"):
        tree.write(f"{home}/{folder}/version.info", "Version=9.2.0\n")
    tree.write(f"{home}/aarch64-linux/ascend_toolkit_install.info", "package_name=toolkit\nversion=9.2.0\n")
    tree.write(f"{home}/set_env.sh")
    for library in LIBRARIES:
        tree.write(f"{home}/lib64/{library}")
    tree.package("torch", "2.13.0+cpu")
    tree.package("torch_npu", "2.13.0")
    tree.write("proc/meminfo", "MemTotal: 67108864 kB\nMemAvailable: 33554432 kB\n")
    header = b'{"__metadata__":{}}'
    (root / "data/weights").mkdir(parents=True)
    (root / "data/weights/model.safetensors").write_bytes(struct.pack("<Q", len(header)) + header)
    (root / "data/weights/model.safetensors").chmod(0o644)
    tree.write("data/weights/config.json", "{}")
    (root / "data/home").mkdir()
    (root / "data/home").chmod(0o777)
    tree.config()
    tree.write("said/id", f"uid={UID}(serve) gid={UID}(serve) groups={UID}(serve),{UID + 1}(HwHiAiUser)\n")
    tree.write("said/df", DF)
    tree.write("said/npu-smi", SMI)
    tree.env()
    return tree
