"""What Farsteer uses and replaces of aider's classes, for the worker. Aider and the standard library only.

`_HOOKS` lists the names that are used. A version of aider that lacks one is refused.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from farsteer.agents.aider.worker import Worker

    _Base = Any
else:
    _Base = object

Json = dict[str, Any]

FORMATS = ("diff", "diff-fenced", "whole", "udiff", "udiff-simple")
"""Edit formats that write with `InputOutput.write_text` only. A model that prefers another one gets the first."""
_HOOKS = {
    "coders:Coder": (
        "send_message", "send", "init_before_message", "check_for_file_mentions", "prepare_to_edit", "allowed_to_edit",
        "apply_updates", "handle_shell_commands", "show_send_output_stream", "check_and_open_urls", "check_for_urls",
        "keyboard_interrupt", "show_exhausted_error", "calculate_and_show_tokens_and_cost", "get_all_relative_files",
        "add_rel_fname", "abs_root_path", "summarize_end", "max_reflections",
    ),
    "io:InputOutput": (
        "confirm_ask", "prompt_ask", "offer_url", "tool_error", "tool_warning", "tool_output", "read_text",
        "write_text",
    ),
    "models:Model": ("send_completion", "set_reasoning_effort", "token_count"),
    "commands:Commands": ("run", "get_commands"),
    "repo:GitRepo": ("get_tracked_files", "git_ignored_file"),
    "repomap:RepoMap": ("TAGS_CACHE_DIR",),
}  # fmt: skip
_DEFAULT_MODELS = {
    "ANTHROPIC_API_KEY": "sonnet", "OPENAI_API_KEY": "gpt-4o", "DEEPSEEK_API_KEY": "deepseek",
    "GEMINI_API_KEY": "gemini/gemini-2.5-pro", "OPENROUTER_API_KEY": "openrouter/anthropic/claude-sonnet-4",
}  # fmt: skip
"""The model for the first key that is set, if none is named. Aider would ask the network."""
_ENVIRONMENT = {
    "LITELLM_LOCAL_MODEL_COST_MAP": "True", "LITELLM_MODE": "PRODUCTION", "HF_HUB_OFFLINE": "1",
    "GIT_PYTHON_REFRESH": "quiet", "AIDER_ANALYTICS": "false",
}  # fmt: skip
"""Keeps the libraries of aider from downloading and from reading `.env`."""


def default_model() -> str:
    """Return the model to use if none is named. Raises Refused."""
    named = os.environ.get("AIDER_MODEL")
    found = named or next((model for key, model in _DEFAULT_MODELS.items() if os.environ.get(key)), None)
    if found is None:
        raise Refused("no_model", "no model is named, and no key is set that would decide it")
    return found


def question_kind(question: str) -> str:
    """Return the kind of tool that a question of aider's is about. One that is not known is `other`."""
    if question.startswith("Add file"):
        return "read"
    return "edit" if "create" in question.lower() else "other"


def _untyped(value: Any) -> Any:
    """Return the value: aider has no types."""
    return value


class Unsupported(Exception):
    """This version of aider is too old or too new."""


class Refused(Exception):
    """A request cannot be done. `args` are the reason, which Farsteer knows, and a message."""


# -- what is replaced in aider


class _Talk(_Base):
    """aider's `InputOutput`: asks Farsteer instead of a terminal, and writes only what was allowed."""

    worker: Worker
    overlay: dict[str, str] | None = None
    """Set while edits are tried: they are written here."""

    def confirm_ask(
        self, question: str, default: str = "y", subject: Any = None, *args: Any, **kwargs: Any
    ) -> bool:
        return self.worker.confirm(str(question), "" if subject is None else str(subject))

    def prompt_ask(self, question: str, default: str = "", subject: Any = None) -> str:
        return ""

    def offer_url(self, *args: Any, **kwargs: Any) -> bool:
        return False

    def tool_error(self, message: Any = "", strip: bool = True) -> None:
        self._notice("error", message)

    def tool_warning(self, message: Any = "", strip: bool = True) -> None:
        self._notice("warning", message)

    def _notice(self, level: str, message: Any) -> None:
        text = str(message).strip()
        if self.overlay is None and text and not text.startswith("Traceback"):
            self.worker.wire.send("notice", level=level, text=text[:2000])

    def tool_output(self, *messages: Any, log_only: bool = False, bold: bool = False) -> None:
        text = " ".join(map(str, messages))
        if self.worker.printed is not None:
            self.worker.printed.append(text)
        elif text.startswith("Retrying in"):
            self._notice("warning", text)

    def read_text(self, filename: Any, silent: bool = False) -> Any:
        if self.overlay is not None and str(filename) in self.overlay:
            return self.overlay[str(filename)]
        return _untyped(super().read_text(filename, silent))

    def write_text(self, filename: Any, content: str, *args: Any, **kwargs: Any) -> None:
        if self.overlay is not None:
            self.overlay[str(filename)] = content
            return
        edit = self.worker.edits.get(str(filename))
        if edit is None:
            raise PermissionError(f"nobody allowed to write {filename}")
        edit["written"] = True
        super().write_text(filename, content, *args, **kwargs)


class _Gate(_Base):
    """aider's `Coder`: streams to Farsteer, and edits and runs commands only as it allows."""

    def keyboard_interrupt(self) -> None:
        pass

    def check_for_urls(self, inp: str) -> str:
        return inp

    def check_and_open_urls(self, exc: BaseException, friendly_msg: str | None = None) -> list[str]:
        self.io.worker.fail("failed", f"{friendly_msg} {exc}" if friendly_msg else str(exc))
        return []

    def show_exhausted_error(self) -> None:
        self.io.worker.fail("max_tokens", f"{self.main_model.name} has reached a limit of tokens")

    def get_all_relative_files(self) -> list[str]:
        if self.repo:
            return _untyped(super().get_all_relative_files())
        return cast("Worker", self.io.worker).list_files()

    def add_rel_fname(self, rel_fname: str) -> None:
        super().add_rel_fname(rel_fname)
        self.io.worker.show_added(rel_fname, self.abs_root_path(rel_fname))

    def send(self, *args: Any, **kwargs: Any) -> Iterator[Any]:
        try:
            yield from super().send(*args, **kwargs)
        except BaseException:
            self.io.worker.close_message(partial=True)
            raise
        self.io.worker.close_message(self.partial_response_content or "")

    def show_send_output_stream(self, completion: Any) -> Iterator[Any]:
        yield from super().show_send_output_stream(self.io.worker.stream(completion))

    def calculate_and_show_tokens_and_cost(self, messages: Any, completion: Any = None) -> None:
        sent, received, cost = self.message_tokens_sent, self.message_tokens_received, self.message_cost
        worker = cast("Worker", self.io.worker)
        # aider itself only estimates what was streamed.
        usage = worker.take_usage()
        super().calculate_and_show_tokens_and_cost(
            messages, SimpleNamespace(usage=usage) if usage else completion
        )
        sent, received = self.message_tokens_sent - sent, self.message_tokens_received - received
        worker.send_usage(self.main_model, sent, received, self.message_cost - cost, usage)

    def prepare_to_edit(self, edits: Any) -> Any:
        self.proposed = edits
        return _untyped(super().prepare_to_edit(edits))

    def allowed_to_edit(self, path: str) -> bool:
        full = self.abs_root_path(path)
        if self.repo and full not in self.abs_fnames and self.repo.git_ignored_file(path):
            self.io.tool_warning(f"Skipping edits to {path} that matches gitignore spec.")
            return False
        if not self.io.worker.ask_edit(path, full, self._preview(path, full)):
            return False
        self.abs_fnames.add(full)
        self.check_added_files()
        return True

    def _preview(self, path: str, full: str) -> str | None:
        """Return the text that the file would have, None if it is not known before it is written."""
        edits = [edit for edit in self.proposed if edit[0] == path]
        self.io.overlay = {}
        try:
            with suppress(Exception):
                self.apply_edits(edits)
            found = cast("dict[str, str]", self.io.overlay).get(full)
        finally:
            self.io.overlay = None
        if found is None and not os.path.exists(full) and all(isinstance(edit[-1], str) for edit in edits):
            return "".join(edit[-1] for edit in edits)
        return found

    def apply_updates(self) -> Any:
        try:
            return _untyped(super().apply_updates())
        finally:
            self.io.worker.finish_edits()

    def handle_shell_commands(self, commands_str: str, group: Any) -> str | None:
        return cast("Worker", self.io.worker).run_commands(commands_str)


class Quiet:
    """In the place of aider's analytics: tells nobody, but learns of an error that aider only prints."""

    def __init__(self, worker: Worker) -> None:
        self._worker = worker

    def event(self, name: str, **properties: Any) -> None:
        if name == "message_send_exception":
            self._worker.fail("failed", str(properties.get("exception")))


class _Offline:
    """In the place of aider's catalog of OpenRouter models, which it downloads."""

    def get_model_info(self, model: str) -> Json:
        return {}


class Aider:
    """The modules of aider, set up to download nothing."""

    def __init__(self, folder: str) -> None:
        os.environ.update(_ENVIRONMENT)
        for name, hooks in _HOOKS.items():
            module, _, kind = name.partition(":")
            owner = getattr(import_module(f"aider.{module}"), kind, None)
            missing = [hook for hook in hooks if not hasattr(owner, hook)]
            if missing:
                raise Unsupported(f"its {kind} has no {missing[0]}")
        litellm: Any = import_module("litellm")
        litellm.suppress_debug_info = litellm.drop_params = litellm.disable_hf_tokenizer_download = True
        litellm.telemetry = False
        self.models: Any = import_module("aider.models")
        known = self.models.model_info_manager
        known.cache_dir = Path(folder) / "aider"
        known.cache_file = known.cache_dir / "models.json"
        known.content = litellm.model_cost
        known.openrouter_manager = _Offline()
        known.fetch_openrouter_model_info = _Offline().get_model_info
        import_module("aider.repomap").RepoMap.TAGS_CACHE_DIR = str(known.cache_dir / "tags")
        self.coders: Any = import_module("aider.coders")
        self.repo: Any = import_module("aider.repo")

    def model(self, name: str, effort: str | None) -> Any:
        """Return a model. Raises Refused if it does not take the effort."""
        model = self.models.Model(name)
        if effort is not None:
            if "reasoning_effort" not in (model.accepts_settings or ()):
                raise Refused("effort_unknown", f"{model.name} takes no reasoning effort")
            model.set_reasoning_effort(effort)
        if model.streaming:
            model.extra_params = {**(model.extra_params or {}), "stream_options": {"include_usage": True}}
        return model

    def talk(self, worker: Worker) -> Any:
        kind = type("Talk", (_Talk, import_module("aider.io").InputOutput), {"worker": worker})
        return kind(pretty=False, fancy_input=False)

    def coder_class(self, wanted: str) -> Any:
        base = next(one for one in self.coders.__all__ if getattr(one, "edit_format", None) == wanted)
        return type("Gated", (_Gate, base), {})

    def find_repo(self, talk: Any, directory: str) -> Any:
        """Return the repository whose root the directory is. From below the root, aider would work on all of it."""
        with suppress(FileNotFoundError):
            repo = self.repo.GitRepo(talk, [], directory, os.path.join(directory, ".aiderignore"))
            if os.path.realpath(repo.root) == os.path.realpath(directory):
                return repo
        return None
