"""aider's models."""

from types import SimpleNamespace

model_info_manager = SimpleNamespace()


class Model:
    streaming = True
    extra_params = None
    edit_format = "diff"

    def __init__(self, model: str) -> None:
        if model.startswith("no-"):
            raise ValueError(f"there is no model {model}")
        self.name = model
        self.effort = None
        self.info = {
            "max_input_tokens": 1000,
            "supports_vision": "blind" not in model,
            "input_cost_per_token": 0.001,
        }
        self.accepts_settings = ["reasoning_effort"] if "thinking" in model else None
        self.missing_keys = ["SIM_API_KEY"] if "keyless" in model else []

    def set_reasoning_effort(self, effort: str) -> None:
        self.effort = effort

    def send_completion(self, *args):
        raise AssertionError("the coder sends the completion")

    def token_count(self, messages) -> int:
        return 1
