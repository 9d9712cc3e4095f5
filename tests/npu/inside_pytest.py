"""Runs pytest in a process that has imported the real torch_npu; what ``test_npu_path.py`` starts."""

from __future__ import annotations

import os
import sys
from pathlib import Path

HERE = Path(__file__).parent


def main() -> int:
    """Import torch_npu with lazy binding, since most of what it is linked for is never called, put the kernels
    behind its operators, then run pytest."""
    sys.path[:0] = [
        str(HERE.parents[1]),
        str(HERE),
        str(HERE / "inside"),
        str(HERE / "fake"),
        str(HERE.parent / "engine"),
    ]
    import stand_in

    sys.path.append(str(stand_in.package(stand_in.VERSION)))
    sys.setdlopenflags(os.RTLD_LAZY | os.RTLD_GLOBAL)
    import kernels
    import pytest
    import torch_npu  # noqa: F401

    import tests.conftest  # noqa: F401 - what it sets comes before all plugins

    registered = kernels.register()
    outcome = int(pytest.main(sys.argv[1:]))
    del registered
    return outcome


if __name__ == "__main__":
    sys.exit(main())
