"""Fetches the JavaScript of others with npm; writes or verifies what is kept of it (``python -m tools.vendor``)."""

from __future__ import annotations

import argparse
import gzip
import hashlib
import json
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Any

ASSETS = Path(__file__).resolve().parents[2] / "handlers" / "pages" / "assets"
MANIFEST = "manifest.json"


def manifest(folder: Path = ASSETS) -> dict[str, dict[str, Any]]:
    """What the folder holds: by file, the packages with their versions, the licence and the SHA-256 of the content."""
    found: dict[str, dict[str, Any]] = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
    return found


def wrong(folder: Path = ASSETS) -> list[str]:
    """A sentence for each file whose content is not what the manifest says."""
    return [
        f"{name} has the SHA-256 {digest(gzip.decompress((folder / name).read_bytes()))}, not {entry['sha256']}"
        for name, entry in manifest(folder).items()
        if digest(gzip.decompress((folder / name).read_bytes())) != entry["sha256"]
    ]


def digest(data: bytes) -> str:
    """SHA-256 as hexadecimal text. Of the content, since compressed bytes depend on the version of zlib."""
    return hashlib.sha256(data).hexdigest()


def fetched(entry: dict[str, Any]) -> bytes:
    """The content of one file as the packages give it; npm fetches them.

    Raises:
        subprocess.CalledProcessError: npm or the bundler failed.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if "take" in entry:
            (package,) = entry["packages"].items()
            packed = _npm(folder, "pack", "--silent", "@".join(package)).splitlines()[-1]
            with tarfile.open(folder / packed) as archive:
                member = archive.extractfile(entry["take"])
                assert member is not None, f"{packed} has no file {entry['take']}"
                return member.read()
        wanted = [f"{package}@{version}" for package, version in entry["packages"].items()]
        (folder / "package.json").write_text("{}", encoding="utf-8")
        _npm(folder, "install", "--silent", "--ignore-scripts", "--save-exact", *wanted)
        (folder / "entry.js").write_text(entry["bundle"], encoding="utf-8")
        options = ("--bundle", "--minify", "--format=esm", "--target=es2022", "--legal-comments=none")
        _npm(folder, "exec", "--offline", "--", "esbuild", "entry.js", *options, "--outfile=out.js")
        return (folder / "out.js").read_bytes()


def _npm(folder: Path, *words: str) -> str:
    done = subprocess.run(["npm", *words], cwd=folder, check=True, stdout=subprocess.PIPE, text=True)
    return done.stdout


def main(arguments: list[str] | None = None) -> int:
    """Verify; with ``--write`` put what npm gives in the place of what is there, and its SHA-256 into the manifest."""
    parser = argparse.ArgumentParser(prog="python -m tools.vendor", description=main.__doc__)
    parser.add_argument("--write", action="store_true", help="write the files and the manifest")
    given = parser.parse_args(arguments)
    entries = manifest()
    differing = []
    for name, entry in entries.items():
        content = fetched(entry)
        if given.write:
            (ASSETS / name).write_bytes(gzip.compress(content, 9, mtime=0))
            entry["sha256"] = digest(content)
        elif digest(content) != entry["sha256"]:
            differing.append(f"npm gives another {name}: its SHA-256 is {digest(content)}, not {entry['sha256']}")
    if given.write:
        (ASSETS / MANIFEST).write_text(json.dumps(entries, indent=2) + "\n", encoding="utf-8")
    print("\n".join([*differing, *wrong()]) or "nothing differs")
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main())
