"""``python -m engine.native`` builds the libraries that a wheel ships, so that it needs no compiler where it runs."""

from __future__ import annotations

import sys

from engine.native.build import prebuild
from engine.native.variants import NativeUnavailable


def main() -> int:
    """Print the files made; returns the exit status."""
    try:
        for path in prebuild():
            print(path)
    except NativeUnavailable as reason:
        print(f"nothing was built: {reason}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
