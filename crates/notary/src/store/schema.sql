CREATE TABLE migration (version INTEGER NOT NULL PRIMARY KEY) STRICT;
CREATE TABLE setting (name TEXT NOT NULL PRIMARY KEY, value TEXT NOT NULL) STRICT;
CREATE TABLE vault_meta (
    id INTEGER NOT NULL PRIMARY KEY CHECK (id = 1),
    salt BLOB NOT NULL, memory_kib INTEGER, passes INTEGER, lanes INTEGER,
    root BLOB NOT NULL, counter INTEGER NOT NULL, mac BLOB NOT NULL
) STRICT;
CREATE TABLE vault_kek (
    tenant TEXT NOT NULL, version INTEGER NOT NULL, sealed BLOB NOT NULL,
    PRIMARY KEY (tenant, version)
) STRICT;
CREATE TABLE vault_credential (
    tenant TEXT NOT NULL, name TEXT NOT NULL, shape TEXT NOT NULL, version INTEGER NOT NULL,
    revoked INTEGER NOT NULL, changed_at INTEGER NOT NULL, kek_version INTEGER NOT NULL,
    data_key BLOB NOT NULL, sealed BLOB NOT NULL,
    PRIMARY KEY (tenant, name)
) STRICT;
CREATE TABLE vault_binding (
    tenant TEXT NOT NULL, id TEXT NOT NULL, body TEXT NOT NULL,
    PRIMARY KEY (tenant, id)
) STRICT;
CREATE TABLE accepted_document (digest TEXT NOT NULL PRIMARY KEY, accepted_at INTEGER NOT NULL) STRICT;
CREATE TABLE session (
    id TEXT NOT NULL PRIMARY KEY, tenant TEXT NOT NULL, generation INTEGER NOT NULL,
    state TEXT NOT NULL
) STRICT;
INSERT INTO migration (version) VALUES (1);
