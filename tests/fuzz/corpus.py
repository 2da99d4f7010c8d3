"""Valid messages of each protocol. Mutations begin with these."""

from __future__ import annotations

from typing import Any

from tests.fuzz.target import Target

Request = tuple[str, str, Any]
"""Method, path and body."""


def rest_requests(target: Target, session: str, other: str) -> list[Request]:
    """Every kind of request that names a session of the attackers or none. `other` is an id of nothing."""
    place = f"/api/sessions/{session}"
    new = {"machineId": target.machine_id, "directory": str(target.directory), "agent": "demo"}
    mcp = {
        "type": "stdio",
        "name": "m",
        "command": "/bin/true",
        "args": ["a"],
        "env": [{"name": "A", "value": "b"}],
    }
    return [
        (
            "POST",
            "/api/auth",
            {"accessToken": target.token, "email": "a@example.org", "clientId": "c", "deviceType": "cli"},
        ),
        ("POST", "/api/auth", {"accessToken": "wrong:attackers"}),
        ("POST", "/api/sessions", {**new, "machineId": other}),
        ("POST", "/api/sessions", {**new, "agent": "nobody", "title": "t", "mcpServers": [mcp]}),
        (
            "POST",
            "/api/sessions",
            {**new, "directory": "/nowhere", "additionalDirectories": ["/a"], "prompt": "say x"},
        ),
        ("GET", "/api/sessions?limit=5", None),
        ("GET", place, None),
        ("PATCH", place, {"title": "a title"}),
        ("DELETE", f"/api/sessions/{other}", None),
        ("POST", f"{place}/abort", None),
        ("POST", f"{place}/permission-mode", {"permissionMode": "default"}),
        ("POST", f"{place}/model", {"model": "demo-small", "modelReasoningEffort": "low"}),
        ("POST", f"{place}/rewind", {"seq": 1, "files": False}),
        ("POST", f"{place}/fork", {"seq": 1, "title": "f", "machineId": other}),
        ("GET", f"{place}/messages?limit=10&beforeSeq=9&afterSeq=0", None),
        ("POST", f"{place}/messages", {"text": "say hello", "localId": "l", "delivery": "queue"}),
        (
            "POST",
            f"{place}/messages",
            {
                "text": "say x",
                "attachments": [{"name": "a.txt", "data": "aGVsbG8=", "mimeType": "text/plain"}],
            },
        ),
        ("DELETE", f"{place}/messages", {"keepLast": 100}),
        ("GET", f"{place}/queue", None),
        ("DELETE", f"{place}/queue/{other}", None),
        ("POST", f"{place}/queue/{other}/send-now", None),
        ("GET", f"{place}/export?format=jsonl", None),
        ("GET", f"{place}/export?format=markdown", None),
        ("GET", "/api/approvals", None),
        (
            "POST",
            f"{place}/permissions/{other}/approve",
            {"decision": "approved", "answers": {"q": ["a"]}, "mode": "default"},
        ),
        ("POST", f"{place}/permissions/{other}/deny", {"decision": "denied", "message": "no"}),
        ("POST", f"{place}/typing", {"text": "typing", "clientId": "c"}),
        ("GET", "/api/usage?groupBy=day&days=3", None),
        ("GET", "/api/online-users", None),
        ("GET", f"/api/machines/{target.machine_id}/conversations?agent=demo", None),
        ("POST", f"/api/machines/{target.machine_id}/import", {"agent": "demo", "nativeId": other}),
        ("POST", "/api/tokens", {"label": "made", "scopes": ["read"], "expiresIn": 60}),
        ("DELETE", f"/api/tokens/{other}", None),
        ("GET", "/metrics", None),
        ("GET", "/health", None),
        ("GET", "/openapi.json", None),
        ("GET", "/asyncapi.json", None),
    ]


def acp_messages(target: Target, session: str) -> list[dict[str, Any]]:
    place = {"sessionId": session}
    folder = {"cwd": str(target.directory), "mcpServers": []}
    mcp = {"name": "m", "command": "/bin/true", "args": ["-x"], "env": [{"name": "A", "value": "b"}]}
    prompt = [
        {"type": "text", "text": "say hello"},
        {"type": "resource_link", "uri": "file:///a", "name": "a"},
        {"type": "resource", "resource": {"uri": "file:///b", "text": "b", "mimeType": "text/plain"}},
        {"type": "image", "data": "aGk=", "mimeType": "image/png"},
    ]
    calls = [
        (
            "initialize",
            {
                "protocolVersion": 1,
                "clientCapabilities": {"fs": {}, "elicitation": {"form": {}}},
                "clientInfo": {"name": "n", "version": "1"},
            },
        ),
        ("authenticate", {"methodId": "login"}),
        ("logout", {}),
        ("session/list", {"cwd": str(target.directory), "cursor": None}),
        ("session/load", {**place, **folder}),
        ("session/resume", {**place, **folder}),
        ("session/close", place),
        ("session/delete", {"sessionId": "00000000-0000-4000-8000-000000000000"}),
        ("session/new", {**folder, "cwd": "/nowhere", "mcpServers": [mcp]}),
        ("session/prompt", {**place, "prompt": prompt[:1]}),
        ("session/prompt", {**place, "prompt": prompt, "_meta": {"a": 1}}),
        ("session/set_mode", {**place, "modeId": "default"}),
        ("session/set_model", {**place, "modelId": "demo-small"}),
        ("session/set_config_option", {**place, "configId": "mode", "value": "default"}),
        ("session/fork", {**place, **folder}),
    ]
    messages: list[dict[str, Any]] = [
        {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
        for number, (method, params) in enumerate(calls)
    ]
    messages += [
        {"jsonrpc": "2.0", "method": "session/cancel", "params": place},
        {"jsonrpc": "2.0", "method": "$/cancel_request", "params": {"requestId": 3}},
        {"jsonrpc": "2.0", "id": 1, "result": {"outcome": {"outcome": "selected", "optionId": "allow"}}},
        {"jsonrpc": "2.0", "id": "x", "error": {"code": -32000, "message": "no", "data": {"a": 1}}},
    ]
    return messages


def droid_messages(target: Target) -> list[dict[str, Any]]:
    calls: list[tuple[str, dict[str, Any]]] = [
        (
            "initialize_session",
            {"machineId": "m", "cwd": str(target.directory), "modelId": "demo-small", "autonomyLevel": "low"},
        ),
        ("load_session", {"sessionId": "00000000-0000-4000-8000-000000000000"}),
        (
            "add_user_message",
            {
                "text": "say hello",
                "messageId": "m1",
                "images": [{"data": "aGk=", "mediaType": "image/png", "type": "base64"}],
            },
        ),
        ("add_user_message", {"text": "say hello", "files": [{"data": "aGk=", "name": "f"}]}),
        (
            "update_session_settings",
            {"modelId": "demo-small", "reasoningEffort": "low", "interactionMode": "auto"},
        ),
        ("interrupt_session", {}),
        ("rename_session", {"title": "t"}),
        ("list_models", {}),
        ("list_commands", {}),
        ("get_context_stats", {}),
        ("fork_session", {"title": "f"}),
        ("get_rewind_info", {"messageId": "m1", "sessionId": "s"}),
        (
            "execute_rewind",
            {
                "messageId": "m1",
                "filesToRestore": [{"filePath": "a", "contentHash": "b", "size": 1}],
                "forkTitle": "x",
            },
        ),
        ("compact_session", {}),
        ("list_mcp_servers", {}),
        ("list_tools", {}),
    ]
    head = {"jsonrpc": "2.0", "factoryApiVersion": "1.0.0"}
    return [
        *(
            {**head, "type": "request", "id": str(number), "method": f"droid.{name}", "params": params}
            for number, (name, params) in enumerate(calls)
        ),
        {
            **head,
            "type": "response",
            "id": "p1",
            "result": {"selectedOption": "proceed_once", "comment": "c"},
        },
        {
            **head,
            "type": "response",
            "id": "p2",
            "result": {"cancelled": False, "answers": [{"index": 0, "answer": "a"}]},
        },
        {
            **head,
            "type": "notification",
            "method": "droid.session_notification",
            "params": {"notification": {"type": "x"}},
        },
    ]


def socketio_packets(token: str, session: str) -> list[str]:
    return [
        f'40/events,{{"token":"{token}","sessionId":"{session}","types":["message-received"],"since":"1"}}',
        '40/events,{"token":"wrong"}',
        "40",
        '40/other,{"a":1}',
        "41/events,",
        f'42/events,1["auth",{{"token":"{token}"}}]',
        '42/events,["event",{"a":[1,2,3]}]',
        '42/events,99999999999999999999["auth",{}]',
        '43/events,7["ack"]',
        '44/events,{"message":"no"}',
        '451-/events,["auth",{"_placeholder":true,"num":0}]',
        '459-/events,["auth",{"_placeholder":true,"num":0}]',
        "bAAECAw==",
        "2probe",
        "3",
        "5",
        "6",
    ]
