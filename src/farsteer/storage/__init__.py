"""SQLite storage for hub and runner: the group-commit writer, readers, migrations and the home directory."""
