"""The hub: where runners, sessions and clients meet."""

from farsteer.hub.auth.caller import Caller as Caller
from farsteer.hub.auth.caller import Scope as Scope
from farsteer.hub.hub import Hub as Hub
from farsteer.hub.services.creation import CreationResult as CreationResult
