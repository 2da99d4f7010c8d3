"""What hub and runner share of SQLite: a group-commit writer, readers, migrations, and the home they live in."""
