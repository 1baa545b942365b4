// SPDX-License-Identifier: Apache-2.0
//! The notary's rows in `SQLite`: write-ahead log, full sync, one connection, opened exclusively.
//! The statements keep to what `PostgreSQL` shares; the schema is each engine's own.

use sqlx::sqlite::{
    SqliteConnectOptions, SqliteConnection, SqliteJournalMode, SqliteLockingMode, SqliteRow,
    SqliteSynchronous,
};
use sqlx::{ConnectOptions, Connection, Row};
use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use thiserror::Error;
use torno_audit::Event;
use torno_policy::names::{Generation, SessionId, TenantName};
use torno_vault::{Change, Rows};

mod preset;
mod vault;
mod wait;

use wait::wait;

/// Why the store did not do it. A write that failed changed nothing.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The file.
    #[error("the store's file can't be made; check the directory and its owner")]
    File(#[from] std::io::Error),
    /// The engine.
    #[error("the store failed; check the disk, and that no other notary runs")]
    Engine(#[from] sqlx::Error),
    /// A row that this product did not write.
    #[error("a row of the store is damaged; restore the newest backup")]
    Row,
    /// A schema of a newer version.
    #[error("the store was written by a newer version; use that version")]
    Newer,
}

/// The store.
#[derive(Debug)]
pub struct SqliteStore {
    connection: SqliteConnection,
}

/// The first version's tables; what later versions added follows in order.
const SCHEMA: &str = include_str!("store/schema.sql");
const SCHEMA_2: &str = include_str!("store/schema_2.sql");
/// The schema's version.
const VERSION: i64 = 2;

impl SqliteStore {
    /// Opens the file, making it (mode 0600) and its tables where they are missing.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        options.mode(0o600).open(path)?;
        let options = SqliteConnectOptions::new()
            .filename(path)
            .journal_mode(SqliteJournalMode::Wal)
            .synchronous(SqliteSynchronous::Full)
            .locking_mode(SqliteLockingMode::Exclusive)
            // A value that was rotated or removed is overwritten with zeroes.
            .pragma("secure_delete", "ON");
        let mut connection = wait(options.connect())?;
        wait(migrate(&mut connection))?;
        Ok(Self { connection })
    }

    /// Closes the file: everything is in it, and the log is gone.
    pub(crate) fn close(self) -> Result<(), StoreError> {
        Ok(wait(self.connection.close())?)
    }

    /// Every row of the vault.
    pub(crate) fn vault_rows(&mut self) -> Result<Rows, StoreError> {
        wait(vault::load(&mut self.connection))
    }

    /// Writes a change of the vault's rows and what is to be recorded about it, all or nothing.
    /// Without an event nothing is owed to the record: that is how a change is taken back.
    pub(crate) fn commit(
        &mut self,
        changes: &[Change],
        pending: Option<&Event>,
    ) -> Result<(), StoreError> {
        let pending = match pending {
            Some(event) => Some(serde_json::to_string(event).map_err(|_| StoreError::Row)?),
            None => None,
        };
        wait(async {
            let mut transaction = self.connection.begin().await?;
            for change in changes {
                vault::write(&mut transaction, change).await?;
            }
            match pending {
                Some(event) => set(&mut transaction, "pending", &event).await?,
                None => unset(&mut transaction, "pending").await?,
            }
            transaction.commit().await?;
            Ok(())
        })
    }

    /// Up to which record the store knows every vault change, and what it may owe.
    pub(crate) fn history(&mut self) -> Result<(u64, Option<Event>), StoreError> {
        wait(async {
            let seen = get(&mut self.connection, "seen").await?;
            let pending = get(&mut self.connection, "pending").await?;
            let seen = seen.map_or(Ok(0), |text| text.parse().map_err(|_| StoreError::Row))?;
            let pending = pending.map(|text| serde_json::from_str(&text));
            Ok((seen, pending.transpose().map_err(|_| StoreError::Row)?))
        })
    }

    /// Nothing is owed, and everything before `seen` is known.
    pub(crate) fn settle(&mut self, seen: u64) -> Result<(), StoreError> {
        wait(async {
            let mut transaction = self.connection.begin().await?;
            set(&mut transaction, "seen", &seen.to_string()).await?;
            unset(&mut transaction, "pending").await?;
            transaction.commit().await?;
            Ok(())
        })
    }

    /// A generation that no earlier life had.
    pub(crate) fn raise_generation(&mut self) -> Result<u64, StoreError> {
        wait(async {
            let last = get(&mut self.connection, "generation").await?;
            let last = last.map_or(Ok(0), |text| {
                text.parse::<u64>().map_err(|_| StoreError::Row)
            });
            let next = last?.checked_add(1).ok_or(StoreError::Row)?;
            set(&mut self.connection, "generation", &next.to_string()).await?;
            Ok(next)
        })
    }

    /// Accepts a document.
    pub(crate) fn accept(&mut self, digest: &str, now: u64) -> Result<(), StoreError> {
        let sql = "INSERT INTO accepted_document (digest, accepted_at) VALUES ($1, $2) \
                   ON CONFLICT (digest) DO NOTHING";
        let query = sqlx::query(sql).bind(digest.to_owned()).bind(integer(now)?);
        wait(query.execute(&mut self.connection))?;
        Ok(())
    }

    /// Whether a document was accepted.
    pub(crate) fn is_accepted(&mut self, digest: &str) -> Result<bool, StoreError> {
        let sql = "SELECT digest FROM accepted_document WHERE digest = $1";
        let query = sqlx::query(sql).bind(digest.to_owned());
        Ok(wait(query.fetch_optional(&mut self.connection))?.is_some())
    }

    /// Takes an acceptance back that could not be recorded.
    pub(crate) fn unaccept(&mut self, digest: &str) -> Result<(), StoreError> {
        let sql = "DELETE FROM accepted_document WHERE digest = $1";
        wait(
            sqlx::query(sql)
                .bind(digest.to_owned())
                .execute(&mut self.connection),
        )?;
        Ok(())
    }

    /// A session runs. An id that was ever used is an error.
    pub(crate) fn begin(
        &mut self,
        session: &SessionId,
        tenant: &TenantName,
        generation: Generation,
    ) -> Result<(), StoreError> {
        let sql =
            "INSERT INTO session (id, tenant, generation, state) VALUES ($1, $2, $3, 'running')";
        let query = sqlx::query(sql)
            .bind(session.as_str().to_owned())
            .bind(tenant.as_str().to_owned())
            .bind(integer(generation.0)?);
        wait(query.execute(&mut self.connection))?;
        Ok(())
    }

    /// Sessions that run no longer: `ended` or `killed`. What is final stays.
    pub(crate) fn stop(&mut self, sessions: &[SessionId], state: &str) -> Result<(), StoreError> {
        let sql = "UPDATE session SET state = $1 WHERE id = $2 AND state = 'running'";
        wait(async {
            let mut transaction = self.connection.begin().await?;
            for session in sessions {
                let query = sqlx::query(sql).bind(state.to_owned());
                let query = query.bind(session.as_str().to_owned());
                query.execute(&mut *transaction).await?;
            }
            transaction.commit().await?;
            Ok(())
        })
    }

    /// Ends every running session and names them.
    pub(crate) fn end_running(&mut self) -> Result<Vec<SessionId>, StoreError> {
        let sql = "UPDATE session SET state = 'ended' WHERE state = 'running' RETURNING id";
        let rows: Vec<SqliteRow> = wait(sqlx::query(sql).fetch_all(&mut self.connection))?;
        let ids = rows.iter().map(|row| row.try_get::<String, _>("id"));
        ids.map(|id| SessionId::parse(&id?).map_err(|_| StoreError::Row))
            .collect()
    }
}

async fn migrate(connection: &mut SqliteConnection) -> Result<(), StoreError> {
    let sql = "SELECT name FROM sqlite_master WHERE type = 'table' AND name = 'migration'";
    if sqlx::query(sql)
        .fetch_optional(&mut *connection)
        .await?
        .is_none()
    {
        let mut transaction = connection.begin().await?;
        sqlx::raw_sql(SCHEMA).execute(&mut *transaction).await?;
        sqlx::raw_sql(SCHEMA_2).execute(&mut *transaction).await?;
        transaction.commit().await?;
        return Ok(());
    }
    let sql = "SELECT MAX(version) AS version FROM migration";
    let version: i64 = sqlx::query(sql)
        .fetch_one(&mut *connection)
        .await?
        .try_get("version")?;
    match version {
        VERSION => Ok(()),
        1 => {
            let mut transaction = connection.begin().await?;
            sqlx::raw_sql(SCHEMA_2).execute(&mut *transaction).await?;
            Ok(transaction.commit().await?)
        }
        ..VERSION => Err(StoreError::Row),
        _ => Err(StoreError::Newer),
    }
}

async fn get(connection: &mut SqliteConnection, name: &str) -> Result<Option<String>, StoreError> {
    let sql = "SELECT value FROM setting WHERE name = $1";
    let query = sqlx::query(sql).bind(name.to_owned());
    let row = query.fetch_optional(connection).await?;
    Ok(row.map(|row| row.try_get("value")).transpose()?)
}

async fn set(connection: &mut SqliteConnection, name: &str, value: &str) -> Result<(), StoreError> {
    let sql = "INSERT INTO setting (name, value) VALUES ($1, $2) \
               ON CONFLICT (name) DO UPDATE SET value = excluded.value";
    let query = sqlx::query(sql)
        .bind(name.to_owned())
        .bind(value.to_owned());
    query.execute(connection).await?;
    Ok(())
}

async fn unset(connection: &mut SqliteConnection, name: &str) -> Result<(), StoreError> {
    let sql = "DELETE FROM setting WHERE name = $1";
    sqlx::query(sql)
        .bind(name.to_owned())
        .execute(connection)
        .await?;
    Ok(())
}

/// A number as both engines keep it.
fn integer(number: u64) -> Result<i64, StoreError> {
    i64::try_from(number).map_err(|_| StoreError::Row)
}
