"""The hub: where runners, sessions and clients meet."""

from farsteer.hub.caller import Caller as Caller
from farsteer.hub.caller import Scope as Scope
from farsteer.hub.hub import Hub as Hub
