"""The tables of hub.db.

`log` holds every stored event of the feed in the order of publication. A session's entries are its rows with a `seq`
from 1. The last row is never deleted (whatever deletes rows also adds one), so that no cursor is given twice.

`held` holds the entries of a session in creation. `copies` holds the entries at the start of a log that were never
published: 1 to `sessions.copied`. They have no cursor. `cuts` are the ranges of a log that rewinds removed from the
conversation; they never overlap, and the rows stay.

`commands` are the slash commands of each session's agent, which its `state` is without.

`foreign_sessions` are the sessions that machines named and the hub never had (see `foreign`).

`queued` has the bytes of the messages that wait in each namespace. Triggers keep it right, whatever changes `items`.
"""

from __future__ import annotations

from farsteer.hub.store.sqlite import commands, items, usage
from farsteer.storage.migrations import Migration

MIGRATIONS: tuple[Migration, ...] = (
    Migration(
        1,
        """
        CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;

        CREATE TABLE log (
            cursor INTEGER PRIMARY KEY,
            namespace TEXT NOT NULL,
            type TEXT NOT NULL,
            subject TEXT,
            seq INTEGER,
            created_at INTEGER NOT NULL,
            body BLOB
        );
        CREATE UNIQUE INDEX log_by_subject ON log (subject, seq);

        CREATE TABLE held (
            session_id TEXT NOT NULL, seq INTEGER NOT NULL, body BLOB NOT NULL, PRIMARY KEY (session_id, seq)
        ) WITHOUT ROWID;

        CREATE TABLE machines (
            id TEXT PRIMARY KEY,
            namespace TEXT NOT NULL,
            active INTEGER NOT NULL,
            active_at INTEGER NOT NULL,
            created_at INTEGER NOT NULL,
            info BLOB NOT NULL
        );
        CREATE INDEX machines_by_namespace ON machines (namespace);

        CREATE TABLE sessions (
            id TEXT PRIMARY KEY,
            namespace TEXT NOT NULL,
            machine_id TEXT NOT NULL,
            phase TEXT NOT NULL,
            seq INTEGER NOT NULL DEFAULT 0,
            cleared_seq INTEGER NOT NULL DEFAULT 0,
            created_at INTEGER NOT NULL,
            updated_at INTEGER NOT NULL,
            status TEXT,
            agent TEXT,
            directory TEXT,
            title TEXT,
            last_message TEXT,
            pending INTEGER NOT NULL DEFAULT 0,
            spec BLOB,
            state BLOB
        );
        CREATE INDEX sessions_by_update ON sessions (namespace, updated_at DESC, id) WHERE phase = 'live';
        CREATE INDEX sessions_by_machine ON sessions (machine_id);
        CREATE INDEX sessions_pending ON sessions (namespace) WHERE phase = 'live' AND pending > 0;

        CREATE TABLE items (
            n INTEGER PRIMARY KEY AUTOINCREMENT,
            id TEXT NOT NULL UNIQUE,
            session_id TEXT NOT NULL,
            local_id TEXT,
            state TEXT NOT NULL,
            offered INTEGER NOT NULL DEFAULT 0,
            reason TEXT,
            body BLOB NOT NULL,
            payload BLOB,
            UNIQUE (session_id, local_id)
        );
        CREATE INDEX items_open ON items (session_id, n) WHERE state IN ('accepted', 'queued');

        CREATE TABLE resolved (
            session_id TEXT NOT NULL, approval_id TEXT NOT NULL, outcome TEXT NOT NULL, by TEXT,
            PRIMARY KEY (session_id, approval_id)
        ) WITHOUT ROWID;

        CREATE TABLE idempotency (
            namespace TEXT NOT NULL, key TEXT NOT NULL, digest BLOB NOT NULL, response BLOB NOT NULL,
            created_at INTEGER NOT NULL,
            PRIMARY KEY (namespace, key)
        ) WITHOUT ROWID;

        CREATE TABLE tokens (
            id TEXT PRIMARY KEY,
            digest BLOB NOT NULL UNIQUE,
            label TEXT NOT NULL,
            namespace TEXT NOT NULL,
            scopes TEXT NOT NULL,
            created_at INTEGER NOT NULL,
            expires_at INTEGER,
            last_used_at INTEGER
        );
        """,
    ),
    Migration(
        2,
        """
        CREATE TABLE cuts (
            session_id TEXT NOT NULL, first INTEGER NOT NULL, last INTEGER NOT NULL, PRIMARY KEY (session_id, first)
        ) WITHOUT ROWID;

        CREATE TABLE copies (
            session_id TEXT NOT NULL, seq INTEGER NOT NULL, body BLOB NOT NULL, PRIMARY KEY (session_id, seq)
        ) WITHOUT ROWID;

        ALTER TABLE sessions ADD COLUMN copied INTEGER NOT NULL DEFAULT 0;

        DROP INDEX items_open;
        CREATE INDEX items_open ON items (session_id, n) WHERE state IN ('accepted', 'queued', 'handed_over');
        """,
    ),
    Migration(3, usage.install),
    # The public key of the machine. NULL until a machine of an older version connects with one.
    Migration(4, "ALTER TABLE machines ADD COLUMN key BLOB"),
    # Who created a token is not known for those that exist already.
    Migration(5, "ALTER TABLE tokens ADD COLUMN created_by TEXT"),
    Migration(6, "ALTER TABLE resolved ADD COLUMN identity BLOB"),
    Migration(
        7,
        """
        ALTER TABLE items ADD COLUMN namespace TEXT NOT NULL DEFAULT '';
        ALTER TABLE items ADD COLUMN size INTEGER NOT NULL DEFAULT 0;
        CREATE TABLE item_bodies (n INTEGER PRIMARY KEY, body BLOB NOT NULL);

        UPDATE items SET size = length(coalesce(payload, body)),
            namespace = coalesce((SELECT namespace FROM sessions WHERE id = session_id), '');
        """,
    ),
    Migration(8, items.move_bodies),
    Migration(
        9,
        """
        ALTER TABLE items DROP COLUMN payload;

        DROP INDEX items_open;
        CREATE INDEX items_open ON items (session_id, n, size) WHERE state IN ('accepted', 'queued', 'handed_over');

        CREATE TABLE queued (namespace TEXT PRIMARY KEY, bytes INTEGER NOT NULL) WITHOUT ROWID;
        INSERT INTO queued SELECT namespace, sum(size) FROM items
            WHERE state IN ('accepted', 'queued', 'handed_over') GROUP BY namespace;

        CREATE TRIGGER items_added AFTER INSERT ON items BEGIN
            INSERT INTO queued (namespace, bytes) VALUES (NEW.namespace, NEW.size)
                ON CONFLICT DO UPDATE SET bytes = bytes + NEW.size;
        END;
        CREATE TRIGGER items_ended AFTER UPDATE OF state ON items
        WHEN OLD.state IN ('accepted', 'queued', 'handed_over')
            AND NEW.state NOT IN ('accepted', 'queued', 'handed_over') BEGIN
            UPDATE queued SET bytes = bytes - OLD.size WHERE namespace = OLD.namespace;
            DELETE FROM item_bodies WHERE n = OLD.n;
        END;
        CREATE TRIGGER items_deleted AFTER DELETE ON items
        WHEN OLD.state IN ('accepted', 'queued', 'handed_over') BEGIN
            UPDATE queued SET bytes = bytes - OLD.size WHERE namespace = OLD.namespace;
            DELETE FROM item_bodies WHERE n = OLD.n;
        END;
        """,
    ),
    # To count the sessions of a namespace, which may have many tombstones.
    Migration(10, "CREATE INDEX sessions_creating ON sessions (namespace) WHERE phase = 'creating'"),
    Migration(
        11,
        """
        CREATE TABLE foreign_sessions (
            machine_id TEXT NOT NULL, id TEXT NOT NULL, namespace TEXT NOT NULL, PRIMARY KEY (machine_id, id)
        ) WITHOUT ROWID;
        """,
    ),
    # What the runner has not confirmed: little of what waits.
    Migration(12, "CREATE INDEX items_accepted ON items (session_id, n, offered) WHERE state = 'accepted'"),
    # Which runner acts as the machine, and which other one was refused (`rules.lease`).
    Migration(
        13,
        """
        ALTER TABLE machines ADD COLUMN lease BLOB;
        ALTER TABLE machines ADD COLUMN conflict BLOB;
        """,
    ),
    Migration(
        14,
        """
        ALTER TABLE items ADD COLUMN unlogged INTEGER NOT NULL DEFAULT 0;
        CREATE INDEX items_unlogged ON items (session_id) WHERE unlogged = 1;
        """,
    ),
    Migration(15, "ALTER TABLE machines ADD COLUMN problem TEXT"),
    Migration(16, commands.install),
    # What a paired device calls itself; NULL for tokens made otherwise.
    Migration(
        17,
        """
        ALTER TABLE tokens ADD COLUMN device TEXT;

        CREATE TABLE pairings (
            id TEXT PRIMARY KEY,
            digest BLOB NOT NULL UNIQUE,
            label TEXT NOT NULL,
            namespace TEXT NOT NULL,
            scopes TEXT NOT NULL,
            created_at INTEGER NOT NULL,
            expires_at INTEGER NOT NULL,
            created_by TEXT NOT NULL,
            lifetime INTEGER
        ) WITHOUT ROWID;
        """,
    ),
    Migration(
        18,
        """
        CREATE TABLE drafts (
            session_id TEXT PRIMARY KEY,
            text TEXT NOT NULL,
            version INTEGER NOT NULL,
            updated_at INTEGER NOT NULL,
            by TEXT NOT NULL,
            identity BLOB,
            client_id TEXT NOT NULL
        );
        """,
    ),
)
