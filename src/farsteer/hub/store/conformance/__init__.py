"""The contracts that every `Store` must keep, as tests for pytest:

    from farsteer.hub.store.conformance import StoreConformance

    class TestMyStore(StoreConformance):
        def factory(self, directory):
            return MyStoreFactory(directory)

A `StoreFactory` opens the store under test, and ends it the way a kill would. The suite uses nothing else but the
`Store` interface, and it needs no plugin of pytest. For failures that show the compared values, call
`pytest.register_assert_rewrite("farsteer.hub.store.conformance")` in a conftest.py.
"""

from farsteer.hub.store.conformance.access import AccessContracts
from farsteer.hub.store.conformance.epochs import EpochContracts
from farsteer.hub.store.conformance.feed import FeedContracts
from farsteer.hub.store.conformance.foreign import ForeignSessionContracts
from farsteer.hub.store.conformance.harness import LogBuilder, StoreFactory, StoreHarness
from farsteer.hub.store.conformance.log import LogContracts
from farsteer.hub.store.conformance.queue import QueueContracts
from farsteer.hub.store.conformance.recovery import RestartContracts
from farsteer.hub.store.conformance.retention import RetentionContracts
from farsteer.hub.store.conformance.sessions import SessionContracts
from farsteer.hub.store.conformance.settling import SettlingContracts
from farsteer.hub.store.conformance.visibility import VisibilityContracts

__all__ = ["LogBuilder", "StoreConformance", "StoreFactory", "StoreHarness"]


class StoreConformance(
    LogContracts, FeedContracts, EpochContracts, SessionContracts, QueueContracts, VisibilityContracts,
    AccessContracts, RestartContracts, RetentionContracts, ForeignSessionContracts, SettlingContracts,
):  # fmt: skip
    """All contracts. Subclass it as `Test…` and define `factory`."""
