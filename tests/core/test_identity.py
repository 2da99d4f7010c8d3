from farsteer.core.identity import Identity, describe


def test_a_claim_is_shown_as_one() -> None:
    assert describe("ci", Identity(token_id="t", label="ci")) == "ci"
    assert describe("ci", Identity(token_id="t", label="ci", claimed_email="ci")) == "ci"
    boss = Identity(token_id="t", label="ci", claimed_email="boss@example.com")
    assert describe("boss@example.com", boss) == "ci (claims to be boss@example.com)"


def test_what_an_older_version_recorded_is_shown_as_it_is() -> None:
    assert describe("ann", None) == "ann"
    assert describe(None, None) == ""
