"""aider's commands, of which two work."""

import os


class Commands:
    def __init__(self, io, coder) -> None:
        self.io = io
        self.coder = coder

    def get_commands(self):
        return ["/add", "/clear", "/run"]

    def run(self, inp: str) -> None:
        name, _, argument = inp.partition(" ")
        if name == "/clear":
            self.coder.done_messages, self.coder.cur_messages = [], []
            self.io.tool_output("All chat history cleared.")
        elif name == "/add":
            self.coder.abs_fnames.add(os.path.abspath(argument))
            self.io.tool_output(f"Added {argument} to the chat")
        else:
            raise AssertionError(f"the worker must not run {name}")
