import pytest

pytest.register_assert_rewrite("farsteer.hub.store.conformance")
