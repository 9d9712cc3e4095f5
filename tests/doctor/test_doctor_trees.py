"""`mindspec doctor --root`: a healthy machine has no fault, and each ill one exactly its own, with its remedy."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from trees import SMI, UID, Tree, healthy

from tools.cli import main
from tools.doctor.looks import LOOKS

CONTAINER = ".dockerenv"
KIND = "910B3               "
NO_DRIVER = "dcmi module initialize failed. ret is -8005"
CANN = "usr/local/Ascend/cann-9.2.0"


@dataclass(frozen=True)
class Ill:
    """A change of the healthy tree, and what the doctor has to say of it."""

    name: str
    change: Callable[[Tree], object]
    look: str
    fault: str
    remedy: str


def in_container(change: Callable[[Tree], object]) -> Callable[[Tree], object]:
    """The same in a container."""
    return lambda tree: (tree.write(CONTAINER), change(tree))


def large_weights(tree: Tree, gib: int = 40) -> None:
    """A file of so many GiB that takes no room."""
    with (tree.root / "data/weights/model.safetensors").open("r+b") as opened:
        opened.truncate(gib << 30)


ILL = (
    Ill("no device node", lambda tree: tree.remove("dev/davinci0", "dev/davinci1"), "cards",
        "there is no device node of a card (/dev/davinci0 and so on).", "`lspci | grep -i accelerators`"),
    Ill("no device node in a container", in_container(lambda tree: tree.remove("dev/davinci0", "dev/davinci1")),
        "cards", "there is no device node of a card (/dev/davinci0 and so on).", "--device /dev/davinci0 (one for"),
    Ill("managers missing in a container", in_container(lambda tree: tree.remove("dev/devmm_svm", "dev/hisi_hdc")),
        "managers", "/dev/devmm_svm, /dev/hisi_hdc are missing, without which no process can open a card.",
        "start the container with --device /dev/devmm_svm --device /dev/hisi_hdc as well."),
    Ill("manager missing on a host", lambda tree: tree.remove("dev/davinci_manager"), "managers",
        "/dev/davinci_manager is missing", "restart the machine"),
    Ill("permissions of a node", lambda tree: (tree.root / "dev/davinci1").chmod(0o660), "permissions",
        f"user {UID} may not read and write /dev/davinci1", "(`usermod -aG HwHiAiUser USER`) and log in anew."),
    Ill("a node that may be read alone", lambda tree: (tree.root / "dev/davinci1").chmod(0o664), "permissions",
        f"user {UID} may not read and write /dev/davinci1", "(`usermod -aG HwHiAiUser USER`) and log in anew."),
    Ill("no driver in a container", in_container(lambda tree: tree.remove("usr/local/Ascend/driver/version.info")),
        "driver", "of the driver /usr/local/Ascend/driver/version.info cannot be found.",
        "-v /usr/local/Ascend/driver/version.info:/usr/local/Ascend/driver/version.info:ro."),
    Ill("no driver's library", lambda tree: tree.remove("usr/local/Ascend/driver/lib64/driver/libascend_hal.so"),
        "driver", "/usr/local/Ascend/driver/lib64/driver/libascend_hal.so cannot be found.", "install the NPU's dri"),
    Ill("no npu-smi", lambda tree: tree.remove("usr/local/bin/npu-smi"), "npu-smi",
        "npu-smi, which tells the health and memory of cards, cannot be found.", "it comes with the driver"),
    Ill("the driver does not answer",
        lambda tree: tree.write("said/npu-smi", f"DrvMngGetConsoleLogLevel failed.\n{NO_DRIVER}\n"),
        "npu-smi", f"npu-smi lists no card: {NO_DRIVER}", "another container may hold the card"),
    Ill("driver not OK",
        lambda tree: tree.replace("said/npu-smi", f"1     {KIND}| OK   ", f"1     {KIND}| Alarm"),
        "health", "npu-smi calls NPU 1 (910B3) Alarm, not OK.", "`npu-smi info -t health -i 1` names the fault"),
    Ill("310P", lambda tree: tree.replace("said/npu-smi", "910B3", "310P3"), "kind of card",
        "NPU 0 is a 310P3, and torch_npu's fused attention", "serve from an Atlas A2 or A3, or on the CPU"),
    Ill("card taken by others", lambda tree: tree.replace("said/npu-smi", "3318 / 65536", "65000/ 65536"),
        "memory of cards", "npu:0 has 0.5 GiB of 64.0 GiB free, and 2.0 GiB are needed.",
        "end the processes that `npu-smi info` lists"),
    Ill("the second instance's card taken by others",
        lambda tree: (tree.replace("said/npu-smi", "3314 / 65536", "65000/ 65536"),
                      tree.config(npuDeviceIds=[[0], [1]], modelInstanceNumber=2)),
        "memory of cards", "npu:1 has 0.5 GiB of 64.0 GiB free", "end the processes that `npu-smi info` lists"),
    Ill("the only visible card taken by others",
        lambda tree: (tree.replace("said/npu-smi", "3314 / 65536", "65000/ 65536"),
                      tree.env(ASCEND_RT_VISIBLE_DEVICES="1")),
        "memory of cards", "npu:0 has 0.5 GiB of 64.0 GiB free", "end the processes that `npu-smi info` lists"),
    Ill("card too small", lambda tree: tree.config(npuMemSize=80), "memory of cards",
        "npu:0 has 64.0 GiB, and weights, keys and values need 81.0 GiB.", "more cards (worldSize), a smaller"),
    Ill("CANN unset", lambda tree: tree.env(ASCEND_HOME_PATH=None), "CANN's variables",
        "ASCEND_HOME_PATH is not set, so torch_npu does not find CANN.", "`source /usr/local/Ascend/cann/set_env.sh`"),
    Ill("CANN in part", lambda tree: (tree.root / CANN / "compiler").rename(tree.root / CANN / "other"),
        "CANN's folders", "there is no folder /usr/local/Ascend/cann/compiler (a part of CANN)", "install all of"),
    Ill("CANN for root alone", lambda tree: (tree.root / CANN / "opp").chmod(0o750), "CANN's folders",
        f"user {UID} may not read /usr/local/Ascend/cann/opp (ASCEND_OPP_PATH).", "with --install-for-all"),
    Ill("CANN too old",
        lambda tree: tree.write(f"{CANN}/aarch64-linux/ascend_toolkit_install.info", "version=8.3.RC1\n"),
        "CANN's version", "CANN 8.3.RC1 is too old: torch_npu 2.10.0.post4 and later work with CANN 8.5 to 9.2.",
        "install CANN 9.2.0, and a driver"),
    Ill("CANN's libraries not in the path", lambda tree: tree.env(LD_LIBRARY_PATH=""), "CANN's libraries",
        "the linker does not find libascendcl.so", "put /usr/local/Ascend/cann/lib64 into LD_LIBRARY_PATH"),
    Ill("a library of CANN missing", lambda tree: tree.remove(f"{CANN}/lib64/libhccl.so"), "CANN's libraries",
        "the linker does not find libhccl.so", "/usr/local/Ascend/cann/lib64 lacks it: install CANN again"),
    Ill("no torch", lambda tree: tree.package("torch", None), "torch",
        "torch is not installed in the Python that serves.",
        "pip install torch==2.13.0 torch_npu==2.13.0 (a build for the CPU is enough)."),
    Ill("no torch_npu", lambda tree: tree.package("torch_npu", None), "torch_npu",
        "torch_npu is not installed in the Python that serves.", "pip install torch_npu==2.13.0, which is for"),
    Ill("torch_npu for another torch", lambda tree: tree.package("torch", "2.10.0+cpu"), "torch with torch_npu",
        "torch_npu 2.13.0 is built for torch 2.13.0, and torch 2.10.0+cpu is installed.",
        "pip install torch==2.13.0, or torch_npu==2.10.0.post4 for the torch that is installed."),
    Ill("torch_npu for a torch with another last number", lambda tree: tree.package("torch", "2.13.1"),
        "torch with torch_npu", "torch_npu 2.13.0 is built for torch 2.13.0, and torch 2.13.1 is installed.",
        "pip install torch==2.13.0."),
    Ill("torch_npu too old", lambda tree: (tree.package("torch", "2.8.0"), tree.package("torch_npu", "2.8.0.post2")),
        "torch_npu", "torch_npu 2.8.0.post2 is too old", "pip install torch==2.13.0 torch_npu==2.13.0"),
    Ill("visible cards out of range", lambda tree: tree.env(ASCEND_RT_VISIBLE_DEVICES="0,2"), "visible cards",
        "ASCEND_RT_VISIBLE_DEVICES is '0,2', and '2' is no card here.", "set it to numbers from 0 to 1"),
    Ill("visible cards that are no numbers", lambda tree: tree.env(ASCEND_RT_VISIBLE_DEVICES="all"), "visible cards",
        "ASCEND_RT_VISIBLE_DEVICES is 'all', and 'all' is no card here.", "leave it away to see all cards"),
    Ill("a visible card twice", lambda tree: tree.env(ASCEND_RT_VISIBLE_DEVICES="1,1"), "visible cards",
        "ASCEND_RT_VISIBLE_DEVICES is '1,1', and 1 stands there twice.", "numbers from 0 to 1, each once"),
    Ill("device ids out of range",
        lambda tree: (tree.env(ASCEND_RT_VISIBLE_DEVICES="1"), tree.config(npuDeviceIds=[[1]])), "device ids",
        "npuDeviceIds names 1, and a process here sees npu:0.", "count from 0 among those of ASCEND_RT_VIS"),
    Ill("too few sets of devices", lambda tree: tree.config(modelInstanceNumber=2), "device ids",
        "npuDeviceIds has 1 sets for 2 instances.", "as in [[0],[1]]"),
    Ill("sets of another size", lambda tree: tree.config(npuDeviceIds=[[0, 1]]), "device ids",
        "npuDeviceIds has a set that is not of worldSize (1) devices.", "as many devices as worldSize says"),
    Ill("a broken config.json", lambda tree: tree.config(npuMemSize=0), "config.json",
        "BackendConfig.ModelDeployConfig.ModelConfig[0].npuMemSize: is 0", "`mindspec config check FILE`"),
    Ill("no weights", lambda tree: tree.remove("data/weights/model.safetensors"), "weights",
        "has no weights: no .safetensors and no .gguf file.", "set modelWeightPath to a whole folder of weights"),
    Ill("permissions of weights", lambda tree: (tree.root / "data/weights/model.safetensors").chmod(0o600), "weights",
        "data/weights/model.safetensors.", "give the folder of weights to that user (chown -R)"),
    Ill("a folder of weights that may not be entered", lambda tree: (tree.root / "data/weights").chmod(0o744),
        "weights", "data/weights.", "give the folder of weights to that user (chown -R)"),
    Ill("weights larger than the host's memory", large_weights, "memory of the host",
        "32.0 GiB of the host's memory are available, and loading needs 42.0 GiB.", "give the container or machine"),
    Ill("full disk", lambda tree: tree.replace("said/df", " 63081248 ", "    20480 "), "disk",
        "/tmp has 20 MiB left, and logs and compiled kernels need 1.0 GiB.", "move HOME and TMPDIR to a larger disk"),
    Ill("log folder", lambda tree: (tree.root / "data/home").chmod(0o755), "log folder",
        f"user {UID} may not write to /data/home", "set HOME, or ASCEND_WORK_PATH and ASCEND_PROCESS_LOG_PATH"),
)  # fmt: skip


def test_every_look_has_an_ill_machine() -> None:
    """No look that never finds anything, and at least one machine for each."""
    assert {ill.look for ill in ILL} == {look.name for look in LOOKS}


def looked(root: Path, capsys: pytest.CaptureFixture[str], *options: str) -> tuple[int, list[dict[str, str]]]:
    """Exit code and findings."""
    code = main(["doctor", "--root", str(root), "--json", *options])
    return code, json.loads(capsys.readouterr().out)


def test_a_healthy_machine(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Every look is taken, and none finds a fault."""
    healthy(tmp_path)
    code, rows = looked(tmp_path, capsys)
    assert [row for row in rows if row["state"] != "ok"] == []
    assert (code, len(rows)) == (0, 22)


@pytest.mark.parametrize("ill", ILL, ids=lambda ill: ill.name)
def test_an_ill_machine(ill: Ill, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It has one fault, its own, with its remedy."""
    tree = healthy(tmp_path)
    ill.change(tree)
    code, rows = looked(tmp_path, capsys)
    faults = [row for row in rows if row["state"] == "fault"]
    assert [row["look"] for row in faults] == [ill.look]
    assert ill.fault in faults[0]["found"]
    assert ill.remedy in faults[0]["remedy"]
    assert code == 1


def test_the_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A line for each look, the remedy below its fault, and the count at the end."""
    healthy(tmp_path).env(ASCEND_HOME_PATH=None)
    main(["doctor", "--root", str(tmp_path)])
    lines = capsys.readouterr().out.splitlines()
    place = next(place for place, line in enumerate(lines) if line.startswith("FAULT"))
    assert lines[0] == "ok    cards                 /dev/davinci0, /dev/davinci1"
    assert lines[place + 1].startswith("      Remedy:               `source /usr/local/Ascend/cann/set_env.sh`")
    assert lines[place + 2] == "-     CANN's folders        not looked at: see CANN's variables"
    assert lines[-1] == "1 fault"
    assert len(lines) == 24


def test_what_a_copy_does_not_tell(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Looks for which nothing was said are named, and are no faults."""
    tree = healthy(tmp_path)
    tree.remove("said/id", "said/df", "said/npu-smi")
    code, rows = looked(tmp_path, capsys)
    unseen = [row["look"] for row in rows if row["state"] == "not looked at"]
    assert code == 0
    assert unseen == ["permissions", "npu-smi", "health", "kind of card", "memory of cards", "log folder", "disk"]


def test_what_was_said_may_lie_elsewhere(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Such as for the files of a running container, to which nothing is added."""
    healthy(tmp_path / "tree")
    (tmp_path / "tree/said").rename(tmp_path / "heard")
    assert looked(tmp_path / "tree", capsys, "--said", str(tmp_path / "heard"))[0] == 0


def test_a_config_that_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It is looked for in the copy, and comes before that of the environment."""
    tree = healthy(tmp_path)
    tree.write("etc/other.json", "{")
    code, rows = looked(tmp_path, capsys, "--config", "/etc/other.json")
    assert code == 1
    assert [row["look"] for row in rows if row["state"] == "fault"] == ["config.json"]


def test_the_older_torch_npu(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The pair that vllm-ascend's hosts have is fit too, under CANN 8.5."""
    tree = healthy(tmp_path)
    tree.package("torch", "2.10.0")
    tree.package("torch_npu", "2.10.0.post4")
    tree.write(f"{CANN}/aarch64-linux/ascend_toolkit_install.info", "version=8.5.0\n")
    assert looked(tmp_path, capsys)[0] == 0


def test_parts_of_cards(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A vNPU's node has another name."""
    tree = healthy(tmp_path)
    tree.remove("dev/davinci0", "dev/davinci1")
    tree.write("dev/vdavinci100", mode=0o666)
    code, rows = looked(tmp_path, capsys)
    assert (code, rows[0]["found"]) == (0, "/dev/vdavinci100")


def test_weights_are_shared_out_over_the_cards_of_an_instance(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Half of 25 GiB, 45 for pages and one are free on each of two cards, where 71 would not be."""
    tree = healthy(tmp_path)
    large_weights(tree, 25)
    tree.config(worldSize=2, npuDeviceIds=[[0, 1]], npuMemSize=45)
    code, rows = looked(tmp_path, capsys)
    assert [row["found"] for row in rows if row["look"] == "memory of cards"] == [
        "58.5 GiB are free where they are needed"
    ]
    assert code == 0


def test_a_card_that_npu_smi_does_not_list(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It is another container's; of its memory nothing is known, which is no fault."""
    tree = healthy(tmp_path)
    tree.write("said/npu-smi", SMI[: SMI.index("| 1     910B3")])
    tree.config(npuDeviceIds=[[1]])
    code, rows = looked(tmp_path, capsys)
    assert code == 0
    assert [row["found"] for row in rows if row["look"] == "npu-smi"] == ["1 chip: 910B3"]


def test_sets_that_no_instance_takes_are_not_looked_at(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """There are two of them, for one instance; the second one has another size."""
    healthy(tmp_path).config(npuDeviceIds=[[0], [0, 1]], modelInstanceNumber=1)
    assert [row for row in looked(tmp_path, capsys)[1] if row["state"] != "ok"] == []


def test_a_cann_of_the_future(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It is said to be newer than what was tried, and is no fault."""
    tree = healthy(tmp_path)
    tree.write(f"{CANN}/aarch64-linux/ascend_toolkit_install.info", "version=10.1.0\n")
    code, rows = looked(tmp_path, capsys)
    assert [row["found"] for row in rows if row["look"] == "CANN's version"] == [
        "CANN 10.1.0, newer than what torch_npu 2.13.0 was released with (9.2)"
    ]
    assert code == 0


def test_a_link_to_nothing_beside_the_weights(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It is no fault of theirs."""
    tree = healthy(tmp_path)
    (tree.root / "data/weights/notes").symlink_to("gone")
    assert looked(tmp_path, capsys)[0] == 0


def test_libraries_by_the_linkers_own_list(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A folder of ld.so.conf.d does as well as LD_LIBRARY_PATH."""
    tree = healthy(tmp_path)
    tree.env(LD_LIBRARY_PATH=None)
    tree.write("etc/ld.so.conf.d/cann.conf", "/usr/local/Ascend/cann/lib64\n")
    assert looked(tmp_path, capsys)[0] == 0


def test_a_folder_that_is_not_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The command line is wrong."""
    assert main(["doctor", "--root", str(tmp_path / "gone")]) == 2
    assert "which --root names" in capsys.readouterr().out
