//! The tables of the file.

/// Number in the header of the file that marks it as a file of Almanac ("Almn").
pub(super) const APPLICATION_ID: i32 = 0x416c_6d6e;

/// Version of the tables below, stored in the header of the file.
pub(super) const VERSION: i32 = 1;

/// Creates the tables.
///
/// `item` keeps its rows in the order in which they came, apart from the index of their keys: a
/// table ordered by key (`WITHOUT ROWID`) would move long rows about in its tree. `data` comes
/// last, so that reading the columns before it does not touch the pages it overflows to. The two
/// indexes end with the key, which orders equal entries, so that a page can end between them.
///
/// `change` is the feed. `AUTOINCREMENT` never uses a number twice, even after its row is gone.
pub(super) const CREATE: &str = "
    CREATE TABLE item (
        pk TEXT NOT NULL,
        sk TEXT NOT NULL,
        attributes TEXT NOT NULL,
        gsi1pk TEXT,
        gsi1sk TEXT,
        board TEXT,
        score REAL,
        expires_at INTEGER,
        data BLOB,
        PRIMARY KEY (pk, sk)
    ) STRICT;
    CREATE INDEX item_gsi1 ON item (gsi1pk, gsi1sk, pk, sk) WHERE gsi1pk IS NOT NULL;
    CREATE INDEX item_board ON item (board, score, pk, sk) WHERE board IS NOT NULL;
    CREATE INDEX item_expiry ON item (expires_at) WHERE expires_at IS NOT NULL;
    CREATE TABLE change (
        seq INTEGER PRIMARY KEY AUTOINCREMENT,
        at INTEGER NOT NULL,
        pk TEXT NOT NULL,
        sk TEXT NOT NULL
    ) STRICT;
    CREATE TABLE meta (
        name TEXT PRIMARY KEY,
        value INTEGER NOT NULL
    ) STRICT, WITHOUT ROWID;
";
