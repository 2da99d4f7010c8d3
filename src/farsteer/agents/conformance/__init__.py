"""The contracts that every adapter must pass, as a pytest suite for our adapters and for yours.

    from farsteer.agents.conformance import AdapterConformance, Prompts

    class TestMyAdapter(AdapterConformance):
        prompts = Prompts(answer="hello", long="count to a million", tool="write x.txt", tool_file="x.txt")

        def adapter(self):
            return MyAdapter()

`Prompts` says which prompt provokes which behaviour; a contract without its prompt is skipped. A contract for a
capability that the adapter does not declare checks that it is refused, or is skipped. See docs/adapters.md. Only this
package needs pytest.
"""

from farsteer.agents.conformance.approvals import ApprovalContracts
from farsteer.agents.conformance.conversations import ConversationContracts, FileContracts, RecoveryContracts
from farsteer.agents.conformance.harness import Prompts
from farsteer.agents.conformance.history import HistoryContracts
from farsteer.agents.conformance.launches import LaunchContracts
from farsteer.agents.conformance.turns import SettingsContracts, TurnContracts

__all__ = ["AdapterConformance", "Prompts"]


class AdapterConformance(
    TurnContracts, ApprovalContracts, LaunchContracts, ConversationContracts, RecoveryContracts, FileContracts,
    HistoryContracts, SettingsContracts,
):  # fmt: skip
    """All contracts. Subclass it as `Test…` and define `adapter()` and `prompts`."""
