"""aider's coders. `send_message` calls the hooks in the order in which aider does."""

import os
import time
from pathlib import Path

from aider.commands import Commands
from aider.script import play


class Coder:
    edit_format = None
    max_reflections = 3

    def __init__(
        self, main_model, io, repo=None, use_git=True, auto_commits=True, dirty_commits=True, map_tokens=1024,
        done_messages=None, cur_messages=None, detect_urls=True, auto_lint=True,
        analytics=None,
    ):  # fmt: skip
        assert not auto_commits, "nothing is committed unasked"
        assert not dirty_commits, "nothing is committed unasked"
        assert not auto_lint, "nothing of the project is run unasked"
        assert not detect_urls, "nothing is fetched unasked"
        assert analytics is not None, "nobody is told"
        self.main_model, self.io, self.repo = main_model, io, repo
        self.done_messages, self.cur_messages = done_messages or [], cur_messages or []
        self.abs_fnames, self.abs_read_only_fnames, self.ignore_mentions = set(), set(), set()
        self.event = analytics.event
        self.commands = Commands(io, self)
        self.root = os.getcwd()
        self.reflected_message = None

    # -- what the worker calls

    def init_before_message(self):
        self.shell_commands = []
        self.message_tokens_sent = self.message_tokens_received = self.message_cost = 0

    def check_for_file_mentions(self, content):
        if content.startswith("slow mention"):
            self.io.tool_warning("a slow repository")
            time.sleep(60)
        for name in set(self.get_all_relative_files()) & set(content.split()) - self.ignore_mentions:
            if self.io.confirm_ask("Add file to the chat?", subject=name, allow_never=True):
                self.add_rel_fname(name)
            else:
                self.ignore_mentions.add(name)

    def send_message(self, inp):
        self.cur_messages += [{"role": "user", "content": inp}]
        interrupted = False
        self.edits, self.partial_response_content = [], ""
        try:
            yield from self.send([*self.done_messages, *self.cur_messages])
        except KeyboardInterrupt:
            interrupted = True
        except PermissionError as error:
            self.check_and_open_urls(error, "The provider refuses.")
        except LookupError as error:
            self.io.tool_warning("Traceback (most recent call last)")
            self.event("message_send_exception", exception=str(error))
            return
        if self.partial_response_content:
            self.cur_messages += [{"role": "assistant", "content": self.partial_response_content}]
        if interrupted:
            self.cur_messages += [
                {"role": "user", "content": "^C"},
                {"role": "assistant", "content": "I see."},
            ]
            return
        edited = self.apply_updates()
        if edited:
            self.done_messages += [*self.cur_messages, {"role": "user", "content": "I updated the files."}]
            self.cur_messages = []
        for command in self.shell_commands:
            output = self.handle_shell_commands(command, None)
            if output:
                self.cur_messages += [
                    {"role": "user", "content": output},
                    {"role": "assistant", "content": "Ok"},
                ]

    def send(self, messages, model=None, functions=None):
        try:
            yield from self.show_send_output_stream(play(self, messages))
            self.calculate_and_show_tokens_and_cost(messages)
        except KeyboardInterrupt:
            self.keyboard_interrupt()
            raise

    def show_send_output_stream(self, completion):
        for chunk in completion:
            text = chunk.choices[0].delta.content or ""
            self.partial_response_content += text
            print(text)
            yield text

    def apply_updates(self):
        edits = self.prepare_to_edit(self.get_edits())
        try:
            self.apply_edits(edits)
        except ValueError as error:
            self.reflected_message = str(error)
        return {edit[0] for edit in edits}

    def prepare_to_edit(self, edits):
        return [edit for edit in edits if self.allowed_to_edit(edit[0])]

    def calculate_and_show_tokens_and_cost(self, messages, completion=None):
        self.message_tokens_sent += 100
        self.message_tokens_received += 10
        self.message_cost += 0.5

    def get_all_relative_files(self):
        return []

    def add_rel_fname(self, rel_fname):
        self.abs_fnames.add(self.abs_root_path(rel_fname))

    def abs_root_path(self, path):
        return str(Path(self.root, path).resolve())

    def check_added_files(self):
        pass

    def summarize_end(self):
        pass

    def get_edits(self):
        return []

    def apply_edits(self, edits):
        pass

    # -- what the worker replaces

    def _replaced(self, *args, **kwargs):
        raise AssertionError("the worker must replace this")

    allowed_to_edit = handle_shell_commands = check_and_open_urls = check_for_urls = keyboard_interrupt = (
        _replaced
    )
    show_exhausted_error = _replaced


class AskCoder(Coder):
    edit_format = "ask"


class EditBlockCoder(Coder):
    edit_format = "diff"

    def get_edits(self):
        return self.edits

    def apply_edits(self, edits):
        for path, old, new in edits:
            full = self.abs_root_path(path)
            before = self.io.read_text(full)
            if before is None or old not in before:
                raise ValueError(f"cannot find {old!r} in {path}")
            self.io.write_text(full, before.replace(old, new, 1) if old else before + new)


globals()["__all__"] = [AskCoder, Coder, EditBlockCoder]  # as in aider, the classes themselves
