"""The names of litellm that the worker sets and reads."""

model_cost = {"sim": {"input_cost_per_token": 0.001}}
