"""Endpoints for pairing: a code for another device, which redeems it for a token of its own."""

from __future__ import annotations

from farsteer.core.api import Done, NewPairing, PairingCreated, PairingsResponse, RedeemPairing, TokenCreated
from farsteer.faces.rest.endpoint import AnyEndpoint, Endpoint, EndpointCall
from farsteer.hub import Scope
from farsteer.server.auth import set_authenticated


async def create_pairing(call: EndpointCall[NewPairing, None]) -> PairingCreated:
    return await call.hub.pairings.create(call.caller, call.body)


async def list_pairings(call: EndpointCall[None, None]) -> PairingsResponse:
    return await call.hub.pairings.list(call.caller)


async def cancel_pairing(call: EndpointCall[None, None]) -> Done:
    return await call.hub.pairings.cancel(call.caller, call.id("pairingId"))


async def redeem_pairing(call: EndpointCall[RedeemPairing, None]) -> TokenCreated:
    redeemed = await call.hub.pairings.redeem(call.body, call.client_address)
    set_authenticated(call.request.scope)
    return redeemed


ENDPOINTS: tuple[AnyEndpoint, ...] = (
    Endpoint(
        method="GET", path="/api/pairings", handler=list_pairings, scope=Scope.ADMIN,
        response=PairingsResponse,
        tag="Pairing", summary="List pairings that wait for a device",
    ),
    Endpoint(
        method="POST", path="/api/pairings", handler=create_pairing, scope=Scope.ADMIN,
        body=NewPairing, body_optional=True, response=PairingCreated, status=201, errors=(409,),
        tag="Pairing", summary="Make a code for another device",
        description="The code works once, for ten minutes. The device that redeems it gets a token of this namespace "
        "with these scopes, which must be among your own. That token ends with yours, at the latest. 409 if 20 "
        "pairings are open already.",
        example={"label": "phone", "scopes": ["read", "write", "approve"]},
    ),
    Endpoint(
        method="DELETE", path="/api/pairings/{pairingId}", handler=cancel_pairing, scope=Scope.ADMIN,
        response=Done,
        tag="Pairing", summary="Cancel a pairing",
        description="Its code stops working. A token that a device has got by it stays: revoke that one.",
    ),
    Endpoint(
        method="POST", path="/api/pairings/redeem", handler=redeem_pairing, scope=None,
        body=RedeemPairing, response=TokenCreated, status=201, errors=(404, 409, 429),
        tag="Pairing", summary="Redeem a code for an access token",
        description="Needs no token. `label` is what the device calls itself. The answer has the device's access "
        "token, which `POST /api/auth` exchanges for a JWT. 404 if the code is wrong, was used or has expired. Failed "
        "attempts are limited per client address; then 429, for a code that is right too.",
        example={"code": "K3V9Q-7XWTM", "label": "phone"},
    ),
)  # fmt: skip
