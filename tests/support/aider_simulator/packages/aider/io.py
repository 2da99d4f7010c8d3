"""aider's terminal."""

from pathlib import Path


class InputOutput:
    def __init__(self, pretty: bool = True, fancy_input: bool = True) -> None:
        assert not pretty, "a worker has no terminal"
        assert not fancy_input, "a worker has no terminal"

    def confirm_ask(self, question, *args, **kwargs):
        raise AssertionError("the worker must ask itself")

    prompt_ask = offer_url = tool_error = tool_warning = tool_output = confirm_ask

    def read_text(self, filename, silent=False):
        try:
            return Path(filename).read_text()
        except OSError:
            return None

    def write_text(self, filename, content, max_retries=5, initial_delay=0.1):
        Path(filename).write_text(content)
