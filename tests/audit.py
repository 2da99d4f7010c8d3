"""Asks pip-audit for known vulnerabilities of locked requirements: `make audit`.

The advisories are on the network. Where they cannot be reached nothing was audited, which is said and is no failure:
`tests/test_requirements.py` holds what can be held without them.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

SECONDS = 300


def audit(pip_audit: str, lock: str) -> tuple[list[Any], str]:
    """Return the dependencies as pip-audit reports them, or nothing and the reason."""
    # The lock is complete and hashed: pip has nothing to resolve.
    command = [
        pip_audit, "--requirement", lock, "--disable-pip", "--no-deps", "--format", "json", "--progress-spinner", "off",
    ]  # fmt: skip
    try:
        answer = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
        return json.loads(answer.stdout)["dependencies"], ""
    except (subprocess.TimeoutExpired, ValueError) as error:
        return [], str(error)


def describe(dependency: Any) -> list[str]:
    name = f"{dependency['name']} {dependency.get('version', '')}"
    return [
        f"{name}: {one['id']} {' '.join(one['aliases'])}; fixed in {', '.join(one['fix_versions']) or 'no version'}"
        for one in dependency.get("vulns", ())
    ]


def main(pip_audit: str, *locks: str) -> int:
    found: list[str] = []
    for lock in map(str, map(Path, locks)):
        dependencies, reason = audit(pip_audit, lock)
        asked = [one for one in dependencies if "vulns" in one]
        if not asked:
            reason = reason or "the package index here has no advisories"
            print(f"{lock}: NOT AUDITED, because no advisory database answered ({reason[:200]})")
            continue
        skipped = [one["name"] for one in dependencies if "vulns" not in one]
        print(
            f"{lock}: {len(asked)} requirements audited" + (f", not {', '.join(skipped)}" if skipped else "")
        )
        found += [line for one in asked for line in describe(one)]
    print("\n".join(dict.fromkeys(found)), end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
