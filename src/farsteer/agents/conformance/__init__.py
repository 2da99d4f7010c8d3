"""The contracts every adapter must pass, for ours and for yours:

    from farsteer.agents.conformance import AdapterConformance, Script

    class TestMyAdapter(AdapterConformance):
        def adapter(self): return MyAdapter()
        script = Script(answer="hello", long="count to a million", tool="write x.txt", tool_file="x.txt")

Run it with pytest. `Script` says which prompt provokes what; a contract whose prompt is not given is skipped, and one
for a capability that the adapter does not declare checks that it is refused or is skipped by its name. Only this
package needs pytest.
"""

from farsteer.agents.conformance.script import Script
from farsteer.agents.conformance.suite import AdapterConformance

__all__ = ["AdapterConformance", "Script"]
