"""The program that runs aider for Farsteer. It speaks JSON lines on its standard input and output.

Farsteer starts it with the Python of aider's own environment, so it runs with Python 3.10 and imports nothing but the
standard library and four files beside it. Only one of them, `worker_fence`, knows aider.

Nothing is done unasked: what aider wants to write, run or read is sent as `ask`, and done only if the answer allows it.
The main thread runs aider; another one reads the input. An interrupt is SIGINT to the main thread.
"""

from __future__ import annotations

import base64
import importlib.util
import json
import os
import queue
import threading
import uuid
from collections.abc import Iterator
from contextlib import suppress
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from farsteer.agents.aider.conversation import INTERRUPTED, Conversation, StartFailed
    from farsteer.agents.aider.worker_fence import (
        FORMATS,
        Aider,
        Quiet,
        Refused,
        Unsupported,
        default_model,
        question_kind,
    )
    from farsteer.agents.aider.worker_io import Interrupts, Wire
    from farsteer.agents.aider.worker_shell import Shell


def _beside(name: str) -> dict[str, Any]:
    """Return the public names of a file of this directory. Farsteer itself cannot be imported here."""
    spec = importlib.util.spec_from_file_location(name, Path(__file__).with_name(f"{name}.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return {name: value for name, value in vars(module).items() if not name.startswith("_")}


if not TYPE_CHECKING:
    for _file in ("conversation", "worker_fence", "worker_io", "worker_shell"):
        globals().update(_beside(_file))

Json = dict[str, Any]

_COMMANDS = {
    "/add": "Add files to the chat so that aider can edit them", "/read-only": "Add files to the chat for reference",
    "/drop": "Remove files from the chat", "/ls": "List the files of the chat", "/tokens": "Count the chat's tokens",
    "/map": "Show the map of the repository", "/clear": "Forget what was said", "/reset": "Drop all files and forget",
}  # fmt: skip
"""The commands of aider that a message may begin with. The others need a terminal, or act without asking."""
_TEXT_CHARS = 500_000
"""How much of a file is shown in a diff."""
_MAX_FILES = 5000


class Worker:
    """One conversation."""

    def __init__(self, wire: Wire, interrupts: Interrupts) -> None:
        self.wire = wire
        self.printed: list[str] | None = None
        """What a command of aider's prints, while one runs."""
        self.edits: dict[str, Json] = {}
        """The files that may be written now."""
        self._interrupts = interrupts
        self._requests: queue.Queue[Json] = queue.Queue()
        self._answers: dict[str, queue.Queue[bool]] = {}
        self._settings: Json = {}
        self._built: Json = {}
        self._message_id = ""
        self._streamed: list[str] = []
        self._thought: list[str] = []
        self._usage: Any = None
        self._failure: tuple[str, str] | None = None
        self._unheard: str | None = None
        """The text of the turn, until aider has it."""
        self.anchor = ""
        self._shell = Shell(os.getcwd())

    # -- the beginning

    def run(self) -> None:
        """Open the conversation of the first line, then run a turn for each prompt."""
        request = json.loads(self.wire.lines.readline() or b"{}")
        if not request:
            return
        try:
            self._open(request)
        except Exception as failure:  # noqa: BLE001
            reason, message = _start_failure(failure)
            self.wire.send("failed", reason=reason, message=message)
            return
        with suppress(OSError), open("/proc/self/comm", "w") as name:
            name.write("aider")
        threading.Thread(target=self._read, daemon=True).start()
        while True:
            self._run_turn(self._requests.get())

    def _open(self, request: Json) -> None:
        self._folder, self._directory = request["state"], os.getcwd()
        self._conversation = Conversation(self._folder, request["session"])
        try:
            self._conversation.open(request)
        except ValueError as damage:
            raise StartFailed("damaged", f"the stored conversation is damaged: {damage}") from damage
        self._aider = Aider(self._folder)
        model = request.get("model") or default_model()
        self._settings = {"model": model, "effort": request.get("effort"), "readOnly": request["readOnly"]}
        self._drop_effort_if_refused(self._settings)
        self._talk = self._aider.talk(self)
        self._repo = self._aider.find_repo(self._talk, self._directory)
        self._coder = self._build(self._conversation.messages, [])
        self._coder.abs_fnames = set(filter(os.path.isfile, self._conversation.last("files") or ()))
        self._coder.abs_read_only_fnames = set(
            filter(os.path.isfile, self._conversation.last("readOnly") or ())
        )
        if missing := self._coder.main_model.missing_keys:
            text = f"{self._coder.main_model.name} needs {', '.join(missing)}"
            self.wire.send("notice", level="warning", text=text)
        commands = [{"name": name[1:], "description": about} for name, about in _COMMANDS.items()]
        self.wire.send(
            "hello", session=request["session"], version=metadata.version("aider-chat"), commands=commands,
            model=self._coder.main_model.name, stored=bool(self._conversation.last("anchor")),
        )  # fmt: skip

    def _build(self, done: list[Json], current: list[Json], before: Any = None) -> Any:
        """Return a coder for the settings, in the place of the one before."""
        self._built = {**self._settings}
        model = self._aider.model(self._built["model"], self._built["effort"])
        preferred = model.edit_format if model.edit_format in FORMATS else FORMATS[0]
        coder = self._aider.coder_class("ask" if self._built["readOnly"] else preferred)(
            model, self._talk, repo=self._repo, use_git=self._repo is not None, auto_commits=False, dirty_commits=False,
            map_tokens=None, done_messages=done, cur_messages=current, detect_urls=False, auto_lint=False,
            analytics=Quiet(self),
        )  # fmt: skip
        coder.root = self._directory
        if before is not None:
            coder.abs_fnames, coder.abs_read_only_fnames = before.abs_fnames, before.abs_read_only_fnames
            coder.ignore_mentions = before.ignore_mentions
        return coder

    # -- what Farsteer sends, in another thread

    def _read(self) -> None:
        try:
            for line in self.wire.lines:
                self._handle(json.loads(line))
        finally:
            self._shell.kill()
            os._exit(0)

    def _handle(self, request: Json) -> None:
        match request["do"]:
            case "answer":
                if (waiting := self._answers.pop(request["ask"], None)) is not None:
                    waiting.put(request["allow"])
            case "interrupt":
                self._interrupts.press()
            case "set":
                self._set(request)
            case "prompt":
                self._requests.put(request)
            case _:
                pass

    def _set(self, request: Json) -> None:
        changed = {**self._settings, **request["settings"]}
        try:
            if "effort" not in request["settings"]:
                self._drop_effort_if_refused(changed)
            self._aider.model(changed["model"], changed["effort"])
        except Exception as error:  # noqa: BLE001
            reason, message = error.args if isinstance(error, Refused) else ("model_unknown", str(error))
            self.wire.send("reply", id=request["id"], reason=reason, error=message)
            return
        self._settings = changed
        self.wire.send("reply", id=request["id"])

    def _drop_effort_if_refused(self, settings: Json) -> None:
        """Go on without an effort that the model does not take. Only whoever asks for the effort itself is refused."""
        try:
            self._aider.model(settings["model"], settings["effort"])
        except Refused as refused:
            settings["effort"] = None
            self.wire.send("notice", level="warning", text=refused.args[1])

    # -- a turn

    def _run_turn(self, request: Json) -> None:
        try:
            attached = self._store_attachments(request)
            self.anchor = request["anchor"]
            self._conversation.append({"type": "prompt", "anchor": self.anchor, "text": request["text"]})
        except Exception as error:  # noqa: BLE001
            reason, message = error.args if isinstance(error, Refused) else ("failed", f"aider: {error}")
            self.wire.send("reply", id=request["id"], reason=reason, error=message)
            return
        self._failure, self._unheard = None, request["text"]
        self._interrupts.begin()
        self.wire.send("reply", id=request["id"])
        try:
            with self._interrupts.allowed():
                self._converse(request["text"], attached)
        except KeyboardInterrupt:
            self._note_interrupt()
        except SystemExit:
            self.fail("failed", "aider ended the conversation")
        except Exception as error:  # noqa: BLE001
            self.fail("failed", f"{type(error).__name__}: {error}")
        self._interrupts.end()
        self._end_turn()

    def _converse(self, text: str, attached: set[str]) -> None:
        if self._settings != self._built:
            before = self._coder
            before.summarize_end()
            self._coder = self._build(before.done_messages, before.cur_messages, before)
        coder = self._coder
        coder.abs_read_only_fnames |= attached
        coder.init_before_message()
        words = text.split(maxsplit=1)
        if words and words[0] in coder.commands.get_commands():
            self._unheard = None
            self._run_own_command(words[0], text)
            return
        coder.check_for_file_mentions(text)
        message: str | None = text
        self._unheard = None
        for _ in range(coder.max_reflections + 1):
            coder.reflected_message = None
            for _ in coder.send_message(message):
                pass
            message = coder.reflected_message
            if not message or self._failure or self._interrupts.requested:
                return
        self.wire.send(
            "notice", level="warning", text=f"aider stopped after {coder.max_reflections} corrections"
        )

    def _run_own_command(self, name: str, text: str) -> None:
        if name not in _COMMANDS:
            self.fail(
                "failed", f"aider's command {name} needs its own terminal. Here are: {', '.join(_COMMANDS)}"
            )
            return
        self.printed = []
        before = set(self._coder.abs_fnames | self._coder.abs_read_only_fnames)
        try:
            self._coder.commands.run(text)
        finally:
            text, self.printed = "\n".join(self.printed).strip(), None
        for added in sorted((self._coder.abs_fnames | self._coder.abs_read_only_fnames) - before):
            self.show_added(os.path.relpath(added, self._directory), added)
        self._say(text or f"{name}: done")

    def _note_interrupt(self) -> None:
        """Do what aider does itself where it notices an interrupt: a question must not stay without an answer."""
        current = self._coder.cur_messages
        if self._unheard is not None:
            current.append({"role": "user", "content": self._unheard})
        if current and current[-1]["role"] == "user":
            current.append({"role": "assistant", "content": INTERRUPTED})

    def _end_turn(self) -> None:
        self.close_message(partial=True)
        self.finish_edits()
        coder, interrupted = self._coder, self._interrupts.requested
        reason, error = self._failure or ("end_turn", None)
        self._conversation.end_turn(
            [*coder.done_messages, *coder.cur_messages], anchor=self.anchor, files=sorted(coder.abs_fnames),
            readOnly=sorted(coder.abs_read_only_fnames),
        )  # fmt: skip
        self._answers.clear()
        self.wire.send("end", anchor=self.anchor, reason="cancelled" if interrupted else reason, error=error)

    def fail(self, reason: str, message: str) -> None:
        """The turn ends with this error."""
        self._failure = (reason, message[:2000])

    def _store_attachments(self, request: Json) -> set[str]:
        """Store the attachments as files and return their paths. Raises Refused if aider or the model takes no such."""
        folder = Path(self._folder) / "attachments" / self._conversation.id / uuid.uuid4().hex
        attachments: list[Json] = request.get("attachments") or []
        stored: set[str] = set()
        for number, attached in enumerate(attachments):
            name = os.path.basename(str(attached["name"])) or f"attachment-{number}"
            content = base64.b64decode(attached["data"])
            if not attached["mimeType"].startswith("image/"):
                try:
                    content.decode()
                except UnicodeDecodeError:
                    raise Refused("not_capable", f"aider takes images and text files, not {name}") from None
            elif not self._aider.model(self._settings["model"], None).info.get("supports_vision"):
                raise Refused("not_capable", f"{self._settings['model']} takes no images")
            path = folder / str(number) / name
            path.parent.mkdir(parents=True, mode=0o700)
            path.write_bytes(content)
            stored.add(str(path))
        return stored

    # -- messages

    def stream(self, completion: Any) -> Iterator[Any]:
        """Send what the model streams, and pass it on to aider."""
        self._usage = None
        for chunk in completion:
            self._usage = getattr(chunk, "usage", None) or self._usage
            delta = chunk.choices[0].delta if chunk.choices else None
            thought = getattr(delta, "reasoning_content", None) or getattr(delta, "reasoning", None)
            if thought:
                self._add_delta("thought", self._thought, thought)
            if text := getattr(delta, "content", None):
                self._close_thought()
                self._add_delta("message", self._streamed, text)
            yield chunk

    def _add_delta(self, kind: str, parts: list[str], text: str) -> None:
        self._message_id = self._message_id or f"m-{uuid.uuid4()}"
        parts.append(text)
        self.wire.send(
            "delta", kind=kind, message=self._message_id + ("-t" if kind == "thought" else ""), text=text
        )

    def _close_thought(self) -> None:
        if self._thought:
            text, self._thought = "".join(self._thought), []
            self.wire.send("thought", message=f"{self._message_id}-t", text=text)

    def close_message(self, whole: str = "", *, partial: bool = False) -> None:
        """Send the message as a whole: what was streamed, or what a model that does not stream has said."""
        self._close_thought()
        text, self._streamed = "".join(self._streamed) or whole, []
        if text.strip() or self._message_id:
            self._say(text, partial=partial)
        self._message_id = ""

    def _say(self, text: str, *, partial: bool = False) -> None:
        message_id = self._message_id or f"m-{uuid.uuid4()}"
        if text.strip():
            self.wire.send("message", message=message_id, text=text, anchor=self.anchor, partial=partial)

    def take_usage(self) -> Any:
        """Return what the model has reported of its last answer, if anything."""
        usage, self._usage = self._usage, None
        return usage

    def send_usage(self, model: Any, sent: int, received: int, cost: float, usage: Any) -> None:
        cached = getattr(getattr(usage, "prompt_tokens_details", None), "cached_tokens", None) or 0
        self.wire.send(
            "usage", input=max(sent - cached, 0), output=received, cacheRead=cached, cost=cost or None,
            model=model.name, size=model.info.get("max_input_tokens"), used=sent + received,
        )  # fmt: skip

    # -- what a person allows

    def confirm(self, question: str, subject: str) -> bool:
        """Return the answer to a question of aider's."""
        arguments = {"question": question, "subject": subject}
        return self._ask(question_kind(question), question, arguments, subject or question)

    def _ask(
        self, kind: str, tool: str, arguments: Json, title: str, call: str | None = None, **more: Any
    ) -> bool:
        ask, answer = uuid.uuid4().hex, queue.Queue[bool]()
        self._answers[ask] = answer
        self.wire.send(
            "ask", ask=ask, kind=kind, tool=tool, arguments=arguments, title=title, call=call, **more
        )
        return answer.get()

    def _is_inside(self, path: str) -> bool:
        """Return whether a file belongs to the directory, and not to what git runs or keeps there."""
        root, real = os.path.realpath(self._directory), os.path.realpath(path)
        return real.startswith(os.path.join(root, "")) and ".git" not in Path(real[len(root) :]).parts

    def list_files(self) -> list[str]:
        """Return the files of a directory without git, which has no list of them."""
        found: list[str] = []
        for folder, folders, names in os.walk(self._directory):
            folders[:] = sorted(name for name in folders if not name.startswith("."))
            found += (os.path.relpath(os.path.join(folder, name), self._directory) for name in sorted(names))
            if len(found) > _MAX_FILES:
                break
        # Not those whose name may be a word of a sentence: aider adds every file that is named.
        return [name for name in found[:_MAX_FILES] if name[0] != "." and set(name) & set("./_-")]

    def show_added(self, name: str, path: str) -> None:
        """Show that the model now sees a file."""
        call, text = uuid.uuid4().hex, _read_text(path)
        self.wire.send(
            "tool", call=call, tool="add_file", kind="read", title=f"Add {name} to the chat", input={"path": name},
            status="in_progress", path=path,
        )  # fmt: skip
        self.wire.send("tool_update", call=call, status="completed", text=text and text[:_TEXT_CHARS])

    def ask_edit(self, name: str, path: str, proposed: str | None) -> bool:
        old, call, inside = _read_text(path), uuid.uuid4().hex, self._is_inside(path)
        title = f"{'Create' if old is None else 'Edit'} {name}"
        diff = None if proposed is None else _diff(path, old, proposed)
        self.wire.send(
            "tool", call=call, tool="edit", kind="edit", title=title, input={"path": name}, status="pending", path=path,
            diff=diff,
        )  # fmt: skip
        arguments = (
            {"path": path} if diff is None else {"path": path, "newText": diff["new"], "oldText": diff["old"]}
        )
        if not self._ask("edit", "edit", arguments, title, call, inside=inside):
            self.wire.send("tool_update", call=call, status="failed", text="denied")
            return False
        if old is None:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "a"):
                pass
        self.edits[path] = {"call": call, "old": old, "written": False}
        return True

    def finish_edits(self) -> None:
        """Close the tool calls of the edits that were allowed."""
        while self.edits:
            path, edit = self.edits.popitem()
            new = _read_text(path)
            if edit["written"] and new is not None:
                diff = _diff(path, edit["old"], new)
                self.wire.send("tool_update", call=edit["call"], status="completed", diff=diff)
                continue
            if edit["old"] is None and not new:
                with suppress(OSError):
                    os.unlink(path)
            self.wire.send("tool_update", call=edit["call"], status="failed", text="the edit was not applied")

    def run_commands(self, text: str) -> str | None:
        """Run commands as aider does, each line in a shell of its own. Returns their output, for the model."""
        lines = [line.strip() for line in text.strip().splitlines()]
        call, commands = uuid.uuid4().hex, [line for line in lines if line and not line.startswith("#")]
        shown = {"command": "\n".join(commands), "cwd": self._directory}
        self.wire.send(
            "tool",
            call=call,
            tool="shell",
            kind="execute",
            title=shown["command"],
            input=shown,
            status="pending",
        )
        if not commands or not self._ask("execute", "shell", shown, shown["command"], call):
            self.wire.send("tool_update", call=call, status="failed", text="denied")
            return None
        results, failed = "", False
        for command in commands:
            code, output = self._shell.run(
                command, lambda text: self.wire.send("tool_output", call=call, text=text)
            )
            failed = failed or code != 0
            results += f"Output from {command}\n{output}\n" if output else ""
        self.wire.send("tool_update", call=call, status="failed" if failed else "completed", partial=True)
        return results or None


def _start_failure(failure: Exception) -> tuple[str, str]:
    """Return the reason of a failed start, which Farsteer may know, and a sentence."""
    if isinstance(failure, StartFailed | Refused):
        return failure.args[0], failure.args[1]
    if isinstance(failure, Unsupported):
        return "unsupported", f"aider {metadata.version('aider-chat')} is not supported: {failure}"
    return "failed", f"{type(failure).__name__}: {failure}"


def _read_text(path: str) -> str | None:
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None


def _diff(path: str, old: str | None, new: str) -> Json | None:
    """Return the change as it is shown; None if it is too large for that."""
    if len(new) + len(old or "") > _TEXT_CHARS:
        return None
    return {"path": path, "old": old, "new": new}


def main() -> None:
    interrupts = Interrupts()
    Worker(Wire(interrupts), interrupts).run()


if __name__ == "__main__":
    main()
