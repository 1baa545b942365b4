// SPDX-License-Identifier: Apache-2.0
//! The vault's rows as tables.

use super::{StoreError, integer};
use sqlx::Row;
use sqlx::sqlite::{SqliteConnection, SqliteRow};
use torno_policy::binding::Binding;
use torno_policy::names::{CredentialName, TenantName};
use torno_vault::{
    Change, CredentialRow, KekRow, MetaRow, PassphraseCost, Rows, Sealed, UnsealRow,
};

pub(super) async fn load(connection: &mut SqliteConnection) -> Result<Rows, StoreError> {
    let mut rows = Rows::default();
    let sql = "SELECT salt, memory_kib, passes, lanes, root, counter, mac FROM vault_meta";
    if let Some(row) = sqlx::query(sql).fetch_optional(&mut *connection).await? {
        rows.meta = Some(meta(&row)?);
    }
    let sql = "SELECT tenant, version, sealed FROM vault_kek";
    for row in sqlx::query(sql).fetch_all(&mut *connection).await? {
        let key = (tenant(&row)?, small(&row, "version")?);
        rows.keks.insert(
            key,
            KekRow {
                key: sealed(&row, "sealed")?,
            },
        );
    }
    let sql = "SELECT tenant, name, shape, version, revoked, changed_at, kek_version, data_key, \
               sealed FROM vault_credential";
    for row in sqlx::query(sql).fetch_all(&mut *connection).await? {
        let name: String = row.try_get("name")?;
        let name = CredentialName::parse(&name).map_err(|_| StoreError::Row)?;
        rows.credentials
            .insert((tenant(&row)?, name), credential(&row)?);
    }
    let sql = "SELECT body FROM vault_binding";
    for row in sqlx::query(sql).fetch_all(&mut *connection).await? {
        let body: String = row.try_get("body")?;
        let binding: Binding = serde_json::from_str(&body).map_err(|_| StoreError::Row)?;
        let key = (binding.tenant.clone(), binding.id.clone());
        rows.bindings.insert(key, binding);
    }
    Ok(rows)
}

/// Writes one change inside the caller's transaction.
pub(super) async fn write(
    connection: &mut SqliteConnection,
    change: &Change,
) -> Result<(), StoreError> {
    match change {
        Change::Meta(row) => write_meta(connection, row.as_ref()).await,
        Change::Kek((tenant, version), row) => {
            let sql = "DELETE FROM vault_kek WHERE tenant = $1 AND version = $2";
            let tenant = tenant.as_str().to_owned();
            let query = sqlx::query(sql)
                .bind(tenant.clone())
                .bind(i64::from(*version));
            query.execute(&mut *connection).await?;
            if let Some(row) = row {
                let sql = "INSERT INTO vault_kek (tenant, version, sealed) VALUES ($1, $2, $3)";
                let query = sqlx::query(sql).bind(tenant).bind(i64::from(*version));
                query.bind(row.key.0.clone()).execute(connection).await?;
            }
            Ok(())
        }
        Change::Credential((tenant, name), row) => {
            let sql = "DELETE FROM vault_credential WHERE tenant = $1 AND name = $2";
            let (tenant, name) = (tenant.as_str().to_owned(), name.as_str().to_owned());
            let query = sqlx::query(sql).bind(tenant.clone()).bind(name.clone());
            query.execute(&mut *connection).await?;
            match row {
                Some(row) => write_credential(connection, tenant, name, row).await,
                None => Ok(()),
            }
        }
        Change::Binding((tenant, id), row) => {
            let sql = "DELETE FROM vault_binding WHERE tenant = $1 AND id = $2";
            let (tenant, id) = (tenant.as_str().to_owned(), id.as_str().to_owned());
            let query = sqlx::query(sql).bind(tenant.clone()).bind(id.clone());
            query.execute(&mut *connection).await?;
            if let Some(row) = row {
                let body = serde_json::to_string(row).map_err(|_| StoreError::Row)?;
                let sql = "INSERT INTO vault_binding (tenant, id, body) VALUES ($1, $2, $3)";
                let query = sqlx::query(sql).bind(tenant).bind(id).bind(body);
                query.execute(connection).await?;
            }
            Ok(())
        }
    }
}

async fn write_meta(
    connection: &mut SqliteConnection,
    row: Option<&MetaRow>,
) -> Result<(), StoreError> {
    sqlx::query("DELETE FROM vault_meta")
        .execute(&mut *connection)
        .await?;
    let Some(row) = row else {
        return Ok(());
    };
    let (salt, cost) = match &row.unseal {
        UnsealRow::Passphrase { salt, cost } => (salt, Some(cost)),
        UnsealRow::KeyFile { salt } => (salt, None),
    };
    let sql = "INSERT INTO vault_meta (id, salt, memory_kib, passes, lanes, root, counter, mac) \
               VALUES (1, $1, $2, $3, $4, $5, $6, $7)";
    let query = sqlx::query(sql)
        .bind(salt.to_vec())
        .bind(cost.map(|cost| i64::from(cost.memory_kib)))
        .bind(cost.map(|cost| i64::from(cost.passes)))
        .bind(cost.map(|cost| i64::from(cost.lanes)))
        .bind(row.root.0.clone())
        .bind(integer(row.counter)?)
        .bind(row.mac.to_vec());
    query.execute(connection).await?;
    Ok(())
}

async fn write_credential(
    connection: &mut SqliteConnection,
    tenant: String,
    name: String,
    row: &CredentialRow,
) -> Result<(), StoreError> {
    let sql = "INSERT INTO vault_credential (tenant, name, shape, version, revoked, changed_at, \
               kek_version, data_key, sealed) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)";
    let query = sqlx::query(sql)
        .bind(tenant)
        .bind(name)
        .bind(row.shape.clone())
        .bind(i64::from(row.version))
        .bind(i64::from(row.revoked))
        .bind(integer(row.changed_at)?)
        .bind(i64::from(row.kek_version))
        .bind(row.data_key.0.clone())
        .bind(row.value.0.clone());
    query.execute(connection).await?;
    Ok(())
}

fn meta(row: &SqliteRow) -> Result<MetaRow, StoreError> {
    let cost = |column| row.try_get::<Option<i64>, _>(column);
    let (memory, passes, lanes) = (cost("memory_kib")?, cost("passes")?, cost("lanes")?);
    let salt = bytes(row, "salt")?;
    let unseal = match (memory, passes, lanes) {
        (None, None, None) => UnsealRow::KeyFile { salt },
        (Some(memory), Some(passes), Some(lanes)) => UnsealRow::Passphrase {
            salt,
            cost: PassphraseCost {
                memory_kib: u32::try_from(memory).map_err(|_| StoreError::Row)?,
                passes: u32::try_from(passes).map_err(|_| StoreError::Row)?,
                lanes: u32::try_from(lanes).map_err(|_| StoreError::Row)?,
            },
        },
        _ => return Err(StoreError::Row),
    };
    Ok(MetaRow {
        unseal,
        root: sealed(row, "root")?,
        counter: large(row, "counter")?,
        mac: bytes(row, "mac")?,
    })
}

fn credential(row: &SqliteRow) -> Result<CredentialRow, StoreError> {
    let revoked = match row.try_get::<i64, _>("revoked")? {
        0 => false,
        1 => true,
        _ => return Err(StoreError::Row),
    };
    Ok(CredentialRow {
        shape: row.try_get("shape")?,
        version: small(row, "version")?,
        revoked,
        changed_at: large(row, "changed_at")?,
        kek_version: small(row, "kek_version")?,
        data_key: sealed(row, "data_key")?,
        value: sealed(row, "sealed")?,
    })
}

fn tenant(row: &SqliteRow) -> Result<TenantName, StoreError> {
    let tenant: String = row.try_get("tenant")?;
    TenantName::parse(&tenant).map_err(|_| StoreError::Row)
}

fn sealed(row: &SqliteRow, column: &str) -> Result<Sealed, StoreError> {
    Ok(Sealed(row.try_get(column)?))
}

fn bytes<const N: usize>(row: &SqliteRow, column: &str) -> Result<[u8; N], StoreError> {
    let bytes: Vec<u8> = row.try_get(column)?;
    bytes.try_into().map_err(|_| StoreError::Row)
}

fn large(row: &SqliteRow, column: &str) -> Result<u64, StoreError> {
    u64::try_from(row.try_get::<i64, _>(column)?).map_err(|_| StoreError::Row)
}

fn small(row: &SqliteRow, column: &str) -> Result<u32, StoreError> {
    u32::try_from(row.try_get::<i64, _>(column)?).map_err(|_| StoreError::Row)
}
