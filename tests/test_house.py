"""The house rules that a machine can check: import direction, file length, no hidden state, honest documents."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
ROOMS = ("engine", "generated", "handlers", "tools")
MAY_IMPORT = {
    "engine": {"engine"},
    "generated": {"generated"},
    "handlers": {"handlers", "generated", "engine"},
    "tools": {"tools", "handlers", "generated", "engine"},
}
GENERATED_MAY_IMPORT = {"generated", "pydantic", "pydantic_core"} | sys.stdlib_module_names
CLIENT = ROOT / "tools" / "client" / "mindspec_client"
CLIENT_MAY_IMPORT = {"pydantic", "pydantic_core", "hypothesis"} | sys.stdlib_module_names
"""Its pytest plugin needs pytest besides; relative imports stay in the package."""
MAX_LINES = 400
TEXT_SUFFIXES = {"", ".py", ".md", ".toml", ".yaml", ".yml", ".json", ".jinja", ".j2", ".sh", ".txt", ".cfg", ".html"}

# In parts, so that this file does not find itself.
MACHINE_FOLDERS = ("home", "mnt", "opt", "root", "srv", "Users", "work")
REGISTRY_HOSTS = (
    ("pypi", "org"),
    ("files", "pythonhosted", "org"),
    ("download", "pytorch", "org"),
    ("huggingface", "co"),
    ("hf", "co"),
    ("modelscope", "cn"),
    ("registry", "npmjs", "org"),
    ("ghcr", "io"),
    ("quay", "io"),
)
FORBIDDEN = {
    "a machine's path": re.compile(rf"(?<![\w.$}}#*-])/(?:{'|'.join(MACHINE_FOLDERS)})/\w"),
    "a registry's host": re.compile(rf"\b(?:{'|'.join(re.escape('.'.join(parts)) for parts in REGISTRY_HOSTS)})\b"),
}


def tracked() -> list[Path]:
    """The files that git knows; in an unpacked archive, all that lie outside hidden folders."""
    if (ROOT / ".git").exists():
        listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True)
        paths = [ROOT / name for name in listed.stdout.split("\0") if name]
    else:
        hidden = (".", "node_modules")
        paths = [path for path in ROOT.rglob("*") if not any(part.startswith(hidden) for part in path.parts)]
    return [path for path in paths if path.is_file()]


TRACKED = tracked()
MODULES = [path for path in TRACKED if path.suffix == ".py" and path.relative_to(ROOT).parts[0] in (*ROOMS, "tests")]
ROOM_MODULES = [path for path in MODULES if path.relative_to(ROOT).parts[0] in ROOMS]
MARKDOWN = [path for path in TRACKED if path.suffix == ".md"]


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


def room_of(path: Path) -> str:
    return path.relative_to(ROOT).parts[0]


def is_generated(path: Path) -> bool:
    return room_of(path) == "generated" or path.is_relative_to(CLIENT / "contract")


def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), filename=name_of(path))


def imported_packages(tree: ast.Module, room: str) -> Iterator[tuple[str, int]]:
    """The top-level package of every import, wherever it stands, with its line; a relative import stays in ``room``."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name.partition(".")[0], node.lineno
        elif isinstance(node, ast.ImportFrom):
            yield (room if node.level else str(node.module).partition(".")[0]), node.lineno


def wrong_imports(tree: ast.Module, room: str) -> list[str]:
    """The imports of ``tree`` that its room may not have."""
    wrong = []
    for package, line in imported_packages(tree, room):
        outside = package in ROOMS and package not in MAY_IMPORT[room]
        heavy = room == "generated" and package not in GENERATED_MAY_IMPORT
        if outside or heavy or package == "tests":
            wrong.append(f"line {line}: {room} imports {package}")
    return wrong


def hidden_state(tree: ast.Module) -> list[str]:
    """``global`` statements, and module-level names that hold a list, dict or set and are not written as constants."""
    found = [
        f"line {node.lineno}: global {', '.join(node.names)}" for node in ast.walk(tree) if isinstance(node, ast.Global)
    ]
    for node in tree.body:
        if isinstance(node, ast.Assign):
            targets, value = node.targets, node.value
        elif isinstance(node, ast.AnnAssign) and node.value is not None:
            targets, value = [node.target], node.value
        else:
            continue
        if not is_container(value):
            continue
        for target in targets:
            name = target.id if isinstance(target, ast.Name) else ast.unparse(target)
            if name != "__all__" and not re.fullmatch(r"_?[A-Z][A-Z0-9_]*", name):
                found.append(f"line {node.lineno}: {name} is a module-level container")
    return found


def is_container(value: ast.expr) -> bool:
    """A display, a comprehension, or a call of the builtin that makes an empty or a copied one."""
    if isinstance(value, ast.List | ast.Dict | ast.Set | ast.ListComp | ast.DictComp | ast.SetComp):
        return True
    makers = {"list", "dict", "set", "bytearray", "defaultdict", "OrderedDict", "Counter", "deque"}
    if not isinstance(value, ast.Call):
        return False
    called = value.func.attr if isinstance(value.func, ast.Attribute) else getattr(value.func, "id", "")
    return called in makers


def mutated_constants(tree: ast.Module) -> list[str]:
    """Places inside functions that change a module-level constant: item assignment, deletion or a mutating method."""
    constants = {
        target.id
        for node in tree.body
        if isinstance(node, ast.Assign | ast.AnnAssign)
        for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
        if isinstance(target, ast.Name) and target.id.isupper()
    }
    mutators = {
        "append",
        "extend",
        "insert",
        "pop",
        "remove",
        "clear",
        "update",
        "setdefault",
        "add",
        "discard",
        "popitem",
    }
    found = []
    for function in ast.walk(tree):
        if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            continue
        for node in ast.walk(function):
            base: ast.expr | None = None
            if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store | ast.Del):
                base = node.value
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in mutators:
                base = node.func.value
            if isinstance(base, ast.Name) and base.id in constants:
                found.append(f"line {node.lineno}: {base.id} is changed")
    return found


@pytest.mark.parametrize("path", ROOM_MODULES, ids=name_of)
def test_imports_point_one_way(path: Path) -> None:
    """tools → handlers → generated and engine; engine needs nothing of ours, generated only pydantic."""
    assert wrong_imports(tree_of(path), room_of(path)) == []


@pytest.mark.parametrize("path", [path for path in MODULES if path.is_relative_to(CLIENT)], ids=name_of)
def test_the_client_needs_nothing_but_its_dependencies(path: Path) -> None:
    """Nothing of this server, whose packages have the names that other projects give to their own folders."""
    may = CLIENT_MAY_IMPORT | ({"pytest"} if path.name == "pytest_plugin.py" else set())
    packages = {package for package, _ in imported_packages(tree_of(path), "pydantic")}
    assert packages - may == set()


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_first_docstring_line_says_what_the_file_owns(path: Path) -> None:
    """Every module begins with a docstring whose first line is a text."""
    docstring = ast.get_docstring(tree_of(path)) or ""
    assert docstring.split("\n")[0].strip() != ""


@pytest.mark.parametrize("path", [path for path in MODULES if not is_generated(path)], ids=name_of)
def test_no_file_grows_past_the_limit(path: Path) -> None:
    """A longer file holds more than one idea."""
    assert len(path.read_text(encoding="utf-8").splitlines()) <= MAX_LINES


@pytest.mark.parametrize("path", ROOM_MODULES, ids=name_of)
def test_modules_hold_no_mutable_state(path: Path) -> None:
    """No ``global``; module-level containers are constants by name and are never changed."""
    tree = tree_of(path)
    assert hidden_state(tree) + mutated_constants(tree) == []


@pytest.mark.parametrize(
    ("room", "source", "wrong"),
    [
        ("engine", "import handlers.app", ["line 1: engine imports handlers"]),
        ("engine", "def f():\n    from tools import cli", ["line 2: engine imports tools"]),
        ("handlers", "import tools", ["line 1: handlers imports tools"]),
        ("generated", "import yaml", ["line 1: generated imports yaml"]),
        ("generated", "import re\nfrom pydantic import BaseModel\nfrom . import rules", []),
        ("tools", "import engine, handlers, generated, yaml", []),
    ],
)
def test_the_import_check_finds_what_it_should(room: str, source: str, wrong: list[str]) -> None:
    """The checker itself: wrong directions are found in every place of a file, right ones are not."""
    assert wrong_imports(ast.parse(source), room) == wrong


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("cache = {}", ["line 1: cache is a module-level container"]),
        ("_seen: set[int] = set()", ["line 1: _seen is a module-level container"]),
        ("def f():\n    global x\n    x = 1", ["line 2: global x"]),
        ("TABLE = {}\ndef f():\n    TABLE['a'] = 1", ["line 3: TABLE is changed"]),
        ("_NAMES = []\ndef f():\n    _NAMES.append(1)", ["line 3: _NAMES is changed"]),
        ("__all__ = ['f']\nTABLE = {'a': 1}\ndef f():\n    own = {}\n    own['a'] = TABLE['a']\n    return own", []),
    ],
)
def test_the_state_check_finds_what_it_should(source: str, found: list[str]) -> None:
    """The checker itself: hidden state is found, constants and local containers are not."""
    tree = ast.parse(source)
    assert hidden_state(tree) + mutated_constants(tree) == found


@pytest.mark.parametrize(
    ("line", "what"),
    [
        (f"cd {'/'.join(('', 'work', 'main'))}", "a machine's path"),
        (f"see '{'/'.join(('', 'home', 'ann'))}'", "a machine's path"),
        (f"https://{'.'.join(('pypi', 'org'))}/simple", "a registry's host"),
        (f"at {'.'.join(('huggingface', 'co'))}/x", "a registry's host"),
        ("make -C tests/work; https://example.org/home/ann", None),
    ],
)
def test_the_path_check_finds_what_it_should(line: str, what: str | None) -> None:
    """The patterns themselves: absolute paths and hosts are found, parts of longer paths are not."""
    assert [name for name, seen in FORBIDDEN.items() if seen.search(line)] == ([what] if what else [])


def test_no_tracked_file_names_a_machine_or_a_registry() -> None:
    """A clone works anywhere: no absolute path of one machine, no host that packages happen to come from."""
    found = []
    for path in TRACKED:
        if path.suffix not in TEXT_SUFFIXES:
            continue
        for number, line in enumerate(path.read_text(encoding="utf-8", errors="replace").splitlines(), 1):
            found += [f"{name_of(path)}:{number} names {what}" for what, seen in FORBIDDEN.items() if seen.search(line)]
    assert found == []


def headings_of(path: Path) -> set[str]:
    """The anchors of a Markdown file, made the way that code hosts make them."""
    anchors = set()
    for line in path.read_text(encoding="utf-8").splitlines():
        if match := re.match(r"#+\s+(.*)", line):
            kept = re.sub(r"[^\w\- ]", "", match[1].strip().lower())
            anchors.add(kept.replace(" ", "-"))
    return anchors


@pytest.mark.parametrize("path", MARKDOWN, ids=name_of)
def test_local_links_resolve(path: Path) -> None:
    """Every link to a file or a heading of this repository leads somewhere."""
    broken = []
    for target in re.findall(r"\]\(([^)\s]+)\)", path.read_text(encoding="utf-8")):
        if re.match(r"[a-z]+:", target):
            continue
        file, _, anchor = target.partition("#")
        linked = (path.parent / file) if file else path
        if not linked.exists() or (anchor and anchor not in headings_of(linked)):
            broken.append(target)
    assert broken == []


def readme_test_command() -> str:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    match = re.search(r"<!-- test command -->\s*```sh\n(.*?)\n```", readme, re.DOTALL)
    assert match is not None, "README.md marks no test command"
    return match[1]


def test_the_readmes_test_command_is_a_make_target() -> None:
    """What the README says is a target that the Makefile has."""
    command = readme_test_command()
    assert command == "make test"
    assert re.search(r"^test:", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)


def test_the_ci_runs_the_readmes_test_command() -> None:
    """.ci/run takes the command out of the README with the lines that it really uses for that."""
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    extraction = re.search(r"^test_command=.*$", script, re.MULTILINE)
    assert extraction is not None
    done = subprocess.run(
        ["bash", "-c", f'{extraction[0]}\nprintf %s "$test_command"'],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == readme_test_command()
    assert 'step bash -euo pipefail -c "$test_command"' in script


def test_the_readme_names_every_make_target() -> None:
    """No command that exists is missing from the table, none in it is invented."""
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z-]+):.*##", makefile, re.MULTILINE)) - {"help"}
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert set(re.findall(r"`make ([a-z-]+)", readme)) == targets


def test_no_two_test_modules_share_a_name() -> None:
    """pytest imports test modules by their file's name alone, and refuses to collect the second of a pair."""
    paths = [path for path in (ROOT / "tests").rglob("*.py") if "node_modules" not in path.parts]
    names = [path.name for path in paths if path.name not in ("conftest.py", "__init__.py")]
    assert sorted({name for name in names if names.count(name) > 1}) == []
