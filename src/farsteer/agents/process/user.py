"""The user that agents run as, if it is not the user of the runner (`run_as` in runner.toml).

Only a runner that root runs can do this: it has to start, signal and find the processes of another user. `setpriv`
replaces itself by the agent, so that the agent's process is a child of the runner as usual.
"""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import NamedTuple, Self

from farsteer.agents.process.environment import RUN_AS_VARIABLE
from farsteer.core.errors import AgentError, BadRequest, ErrorCode

_OF_THE_RUNNER = ("XDG_*", "TMPDIR")
"""Variables that name directories of the runner's user."""
_SECONDS = 10.0


class AgentUser(NamedTuple):
    """A user that is not root. Use `AgentUser.find`."""

    name: str
    uid: int
    gid: int
    home: str
    shell: str

    @classmethod
    def find(cls, name: str) -> Self:
        """Return the user. Raises BadRequest if agents cannot run as this user."""
        try:
            user = pwd.getpwnam(name)
        except KeyError:
            raise BadRequest(f"run_as: there is no user {name!r} on this machine") from None
        if user.pw_uid == 0:
            raise BadRequest("run_as: agents do not run as root; choose an ordinary user")
        if os.geteuid() != 0:
            raise BadRequest(
                f"run_as: only root can run agents as {name}: start the runner as root (a system service), or remove"
                f" run_as and start the whole runner as {name}"
            )
        if shutil.which("setpriv") is None:
            raise BadRequest("run_as needs the program setpriv (util-linux), which is not installed")
        return cls(name, user.pw_uid, user.pw_gid, user.pw_dir, user.pw_shell or "/bin/sh")

    def command(self, argv: Sequence[str]) -> list[str]:
        """Return the command line that runs `argv` as this user."""
        identity = (f"--reuid={self.uid}", f"--regid={self.gid}", "--init-groups", "--inh-caps=-all")
        return ["setpriv", *identity, "--", *argv]

    def environment(self, base: Mapping[str, str]) -> dict[str, str]:
        """Return `base`, an environment for agents, with what belongs to this user instead of the runner's."""
        kept = {
            name: value
            for name, value in base.items()
            if not any(fnmatchcase(name, pattern) for pattern in _OF_THE_RUNNER)
        }
        own = {"HOME": self.home, "USER": self.name, "LOGNAME": self.name, "SHELL": self.shell}
        return {**kept, **own, RUN_AS_VARIABLE: self.name}

    def check_directory(self, directory: str) -> None:
        """Raise AgentError if this user cannot work in `directory`."""
        self._run(
            ("/bin/sh", "-c", 'cd -- "$1" && test -r .', "sh", directory),
            f"user {self.name}, who runs the agents of this machine (run_as), cannot read {directory}",
        )

    def make_directory(self, directory: str) -> str:
        """Create a directory that only this user can read, and return it. Raises AgentError."""
        self._run(
            ("mkdir", "-p", "-m", "0700", "--", directory),
            f"user {self.name}, who runs the agents of this machine (run_as), cannot create {directory}",
        )
        return directory

    def _run(self, argv: Sequence[str], problem: str) -> None:
        environment = {"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C"}
        try:
            subprocess.run(
                self.command(argv), cwd="/", env=environment, stdin=subprocess.DEVNULL, capture_output=True,
                timeout=_SECONDS, check=True,
            )  # fmt: skip
        except (OSError, subprocess.SubprocessError) as error:
            output = error.stderr if isinstance(error, subprocess.CalledProcessError) else str(error).encode()
            raise AgentError(
                f"{problem}: {output.decode(errors='replace').strip()}", code=ErrorCode.AGENT_START_FAILED
            ) from error
