// SPDX-License-Identifier: Apache-2.0
//! The presets that the operator confirmed, as a table.

use super::{SqliteStore, StoreError, integer, wait};
use sqlx::Row;
use sqlx::sqlite::SqliteRow;
use torno_policy::document::{Preset, Presets};
use torno_policy::names::PresetName;

impl SqliteStore {
    /// Every preset.
    pub(crate) fn presets(&mut self) -> Result<Presets, StoreError> {
        let sql = "SELECT name, body FROM preset";
        let rows: Vec<SqliteRow> = wait(sqlx::query(sql).fetch_all(&mut self.connection))?;
        rows.iter().try_fold(Presets::shipped(), |presets, row| {
            let name = PresetName::parse(&row.try_get::<String, _>("name")?);
            let preset = Preset::parse(&row.try_get::<String, _>("body")?);
            match (name, preset) {
                (Ok(name), Ok(preset)) => Ok(presets.with(name, preset)),
                _ => Err(StoreError::Row),
            }
        })
    }

    /// Keeps a preset, in place of an earlier one of that name.
    pub(crate) fn set_preset(
        &mut self,
        name: &PresetName,
        preset: &Preset,
        now: u64,
    ) -> Result<(), StoreError> {
        let sql = "INSERT INTO preset (name, body, confirmed_at) VALUES ($1, $2, $3) \
                   ON CONFLICT (name) DO UPDATE SET body = excluded.body, \
                   confirmed_at = excluded.confirmed_at";
        let query = sqlx::query(sql)
            .bind(name.as_str().to_owned())
            .bind(preset.text())
            .bind(integer(now)?);
        wait(query.execute(&mut self.connection))?;
        Ok(())
    }

    /// Forgets a preset.
    pub(crate) fn remove_preset(&mut self, name: &PresetName) -> Result<(), StoreError> {
        let query =
            sqlx::query("DELETE FROM preset WHERE name = $1").bind(name.as_str().to_owned());
        wait(query.execute(&mut self.connection))?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::{SCHEMA, migrate};
    use super::*;
    use sqlx::Connection;
    use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};

    fn pip() -> (PresetName, Preset) {
        let preset = Preset::parse("[[allow]]\nhost = \"index.example.org\"").unwrap();
        (PresetName::parse("pip").unwrap(), preset)
    }

    #[test]
    fn a_preset_is_there_after_the_next_opening_and_its_place_is_taken() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("store");
        let (name, preset) = pip();
        let mut store = SqliteStore::open(&file).unwrap();
        store.set_preset(&name, &preset, 1).unwrap();
        let wider = format!("{}[[allow]]\nhost = \"b.example.org\"\n", preset.text());
        let wider = Preset::parse(&wider).unwrap();
        store.set_preset(&name, &wider, 2).unwrap();
        store.close().unwrap();
        let mut store = SqliteStore::open(&file).unwrap();
        assert_eq!(store.presets().unwrap().preset(&name), Some(&wider));
        store.remove_preset(&name).unwrap();
        assert_eq!(store.presets().unwrap(), Presets::shipped());
    }

    #[test]
    fn a_store_of_the_first_version_gains_the_table_and_keeps_its_rows() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("store");
        let options = SqliteConnectOptions::new()
            .filename(&file)
            .create_if_missing(true);
        let made = async {
            let mut connection = SqliteConnection::connect_with(&options).await?;
            sqlx::raw_sql(SCHEMA).execute(&mut connection).await?;
            let sql = "INSERT INTO accepted_document (digest, accepted_at) VALUES ('d', 1)";
            sqlx::query(sql).execute(&mut connection).await?;
            connection.close().await
        };
        wait(made).unwrap();
        let mut store = SqliteStore::open(&file).unwrap();
        assert!(store.is_accepted("d").unwrap());
        let (name, preset) = pip();
        store.set_preset(&name, &preset, 1).unwrap();
        // Opened again it is of this version, and nothing is made twice.
        wait(migrate(&mut store.connection)).unwrap();
        assert_eq!(store.presets().unwrap().preset(&name), Some(&preset));
    }
}
