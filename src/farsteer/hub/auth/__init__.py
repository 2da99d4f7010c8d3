"""Who calls the hub: access tokens, JWTs, scopes, and the limit on failed sign-ins."""
