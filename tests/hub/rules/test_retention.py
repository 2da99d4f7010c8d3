from farsteer.core.retention import RemovalReason
from farsteer.hub.rules.retention import RetentionRule, StoredSession, sessions_to_remove

DAY = 86_400_000
NOW = 1000 * DAY


def session(id: str, days_ago: float, *, size: int = 10, busy: bool = False) -> StoredSession:
    return StoredSession(id, NOW - int(days_ago * DAY), size, busy)


def removed(rule: RetentionRule, *sessions: StoredSession) -> list[tuple[str, RemovalReason]]:
    found = sessions_to_remove("n", sessions, rule, NOW)
    return [(one.session_id, one.reason) for one in found]


def test_without_a_rule_everything_stays() -> None:
    assert removed(RetentionRule(), session("a", 999, size=10**12)) == []


def test_what_nobody_has_used_for_long_goes_first_come_first_gone() -> None:
    rule = RetentionRule(days=30)
    found = removed(rule, session("new", 29.9), session("old", 30), session("older", 300))
    assert found == [("older", RemovalReason.AGE), ("old", RemovalReason.AGE)]


def test_the_oldest_go_until_the_rest_is_small_enough() -> None:
    rule = RetentionRule(bytes=25)
    sessions = [session(str(days), days) for days in (2, 5, 4, 3)]
    assert removed(rule, *sessions) == [("5", RemovalReason.SIZE), ("4", RemovalReason.SIZE)]
    assert removed(RetentionRule(bytes=40), *sessions) == []


def test_a_session_that_is_in_use_stays_and_counts() -> None:
    rule = RetentionRule(days=1, bytes=5)
    assert removed(rule, session("busy", 500, busy=True), session("today", 0.9, size=1000)) == []
    assert removed(RetentionRule(bytes=15), session("busy", 9, busy=True), session("idle", 2)) == [
        ("idle", RemovalReason.SIZE)
    ]


def test_both_rules_count_what_the_other_removes_once() -> None:
    rule = RetentionRule(days=10, bytes=20)
    found = removed(rule, session("a", 20), session("b", 5), session("c", 4), session("d", 3))
    assert found == [("a", RemovalReason.AGE), ("b", RemovalReason.SIZE)]
