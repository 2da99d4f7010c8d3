"""All contracts together."""

from __future__ import annotations

from farsteer.agents.conformance.approvals import ApprovalContracts
from farsteer.agents.conformance.files import FileContracts
from farsteer.agents.conformance.life import LifeContracts
from farsteer.agents.conformance.memory import MemoryContracts
from farsteer.agents.conformance.recovery import RecoveryContracts
from farsteer.agents.conformance.settings import SettingsContracts
from farsteer.agents.conformance.stored import StoreContracts
from farsteer.agents.conformance.turns import TurnContracts


class AdapterConformance(
    TurnContracts, ApprovalContracts, LifeContracts, MemoryContracts, RecoveryContracts, FileContracts, StoreContracts,
    SettingsContracts,
):  # fmt: skip
    """Subclass it as `Test…`, give `adapter()` and `script`."""
