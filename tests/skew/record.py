"""Records the golden frames of a release, with the code of that release.

    python -m tests.skew.record 0.2.0

writes `tests/skew/golden/0.2.0/`, a file for each frame. The frames of a release are never changed afterwards.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.skew import examples
from tests.skew.releases import RELEASES, extract


def main(version: str) -> None:
    release = next(one for one in RELEASES if one.version == version)
    release.golden.mkdir(parents=True)
    with tempfile.TemporaryDirectory() as temporary:
        source = extract(release, Path(temporary))
        # As a script, so that it imports nothing of this version.
        subprocess.run(
            [sys.executable, examples.__file__, str(release.golden)],
            env={"PYTHONPATH": str(source), "PATH": os.environ["PATH"]}, check=True, cwd=temporary,
        )  # fmt: skip


if __name__ == "__main__":
    main(sys.argv[1])
