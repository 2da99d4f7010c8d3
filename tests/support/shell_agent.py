"""The demo agent as a shell script of 1 MB that starts in a millisecond, for tests with a thousand of them.

`python -m tests.support.shell_agent FILE COMMAND…` is `tests.support.stalls` with this agent instead of the demo agent.
"""

from __future__ import annotations

import sys
from pathlib import Path

from farsteer.agents.demo import adapter
from tests.support import stalls

_SCRIPT = r"""
answers=0
while IFS= read -r line; do
    id=${line#*'"id":'}; id=${id%%,*}; id=${id%%\}*}
    case $line in
    '{"do":"open"'*)
        session=${line#*'"session":"'}; session=${session%%'"'*}
        printf '{"type":"hello","session":"%s","version":"1","messages":0,"commands":[]}\n' "$session" ;;
    '{"do":"prompt"'*)
        turn=${line#*'"turn":"'}; turn=${turn%%'"'*}; answers=$((answers + 1))
        printf '{"type":"reply","id":%s}\n{"type":"message","message":"%s.%s","text":"yes"}\n' "$id" "$$" "$answers"
        printf '{"type":"end","turn":"%s","reason":"end_turn"}\n' "$turn" ;;
    esac
done
"""
ARGV = ("/bin/sh", "-c", _SCRIPT)

if __name__ == "__main__":
    adapter.ARGV = ARGV
    sys.exit(stalls.run(Path(sys.argv[1]), sys.argv[2:]))
